package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/hibiken/asynq"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	nooptrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/lockmw/go/examples/orders/internal/books"
	"github.com/lockmw/go/examples/orders/internal/figures"
	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/lockmw"
)

// A shop takes orders over HTTP and ships them in background tasks.
type shop struct {
	conditions

	books  *books.Books
	locks  lockmw.Locker
	queue  *asynq.Client
	name   string // of the queue
	tracer trace.TracerProvider
	meter  metric.MeterProvider
	buy    func(context.Context, order) (int64, error)
	counts figures.Counts
}

func newShop(b *books.Books, locks lockmw.Locker, queue *asynq.Client, name string, c conditions) *shop {
	s := &shop{
		conditions: c, books: b, locks: locks, queue: queue, name: name,
		tracer: nooptrace.NewTracerProvider(), meter: noopmetric.NewMeterProvider(),
	}
	s.buy = s.buyer()
	return s
}

// handler returns the routes with the usual middleware of a server.
func (s *shop) handler() http.Handler {
	r := chi.NewRouter()
	r.Use(middleware.Recoverer)
	// Tracing is mounted at the routes, because a span is named after its route. Locks come after it, so
	// that the span covers the wait.
	traced := otelhttp.NewMiddleware("", otelhttp.WithTracerProvider(s.tracer), otelhttp.WithMeterProvider(s.meter))
	s.routes(r.With(traced, identified))
	return r
}

func (s *shop) create(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Item string `json:"item"`
	}
	user, err := userID(r)
	if err == nil {
		err = json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&in)
	}
	if err != nil || in.Item == "" {
		answer(w, http.StatusBadRequest, map[string]any{"error": `send {"item": "…"}`})
		return
	}
	id, err := s.order(r.Context(), order{User: user, Item: in.Item})
	switch {
	case err == nil:
		answer(w, http.StatusCreated, map[string]any{"order": id})
	case errors.Is(err, errSecond), errors.Is(err, errSoldOut):
		answer(w, http.StatusConflict, map[string]any{"error": err.Error()})
	case errors.Is(err, books.ErrNoItem):
		answer(w, http.StatusNotFound, map[string]any{"error": err.Error()})
	case errors.Is(err, books.ErrFenced):
		httpmw.WriteError(w, r, lockmw.ErrLost) // the lock was lost without a notification
	case r.Context().Err() != nil:
		// The client has disconnected, or the user's lock was lost; then the middleware answers.
	default:
		if _, ok := errors.AsType[*lockmw.Error](err); !ok {
			slog.ErrorContext(r.Context(), "order failed", "error", err)
		}
		httpmw.WriteError(w, r, err)
	}
}

var errSecond = errors.New("you have an order already")

// order runs under the user's lock.
func (s *shop) order(ctx context.Context, o order) (int64, error) {
	has, seen, err := s.books.HasOrder(ctx, o.User)
	if err != nil {
		return 0, err
	}
	if has {
		return 0, errSecond
	}
	o.seen = seen
	id, err := s.buy(ctx, o)
	if err != nil {
		return 0, err
	}
	if err := s.admit(ctx); err != nil {
		return 0, err
	}
	s.announce(ctx, fulfilment{Order: id, Item: o.Item})
	return id, nil
}

func (s *shop) list(w http.ResponseWriter, r *http.Request) {
	items, err := s.books.Items(r.Context())
	if err != nil {
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	answer(w, http.StatusOK, items)
}

// identified adds the user of the route, if there is one, to the request's span and to the list of the
// slowest waits.
func identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, err := userID(r); err == nil {
			trace.SpanFromContext(r.Context()).SetAttributes(attribute.String("user.id", user))
			r = r.WithContext(figures.WithActor(r.Context(), user+" ordering"))
		}
		next.ServeHTTP(w, r)
	})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails only if the client has disconnected
}
