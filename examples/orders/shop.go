package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/hibiken/asynq"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	nooptrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/lockmw"
)

var errSoldOut = errors.New("sold out")

type order struct{ User, Item string }

// userID is the user as the lock's key knows them: /users/%34%32 is user 42 in both places.
var userID = httpmw.URLParam("userID")

// A shop takes orders over HTTP and ships them in background tasks. It does not know whether its
// locks lock: a sale without them runs this same code with a Locker that does nothing.
type shop struct {
	conditions

	store  *store
	locks  lockmw.Locker
	tasks  *asynq.Client
	queue  string
	tracer trace.TracerProvider
	meter  metric.MeterProvider
	buy    func(context.Context, order) (int64, error)
	counts counts
}

func newShop(st *store, locks lockmw.Locker, tasks *asynq.Client, queue string, c conditions) *shop {
	s := &shop{
		conditions: c, store: st, locks: locks, tasks: tasks, queue: queue,
		tracer: nooptrace.NewTracerProvider(), meter: noopmetric.NewMeterProvider(),
	}
	byItem := lockmw.By("item", func(o order) string { return o.Item })
	s.buy = lockmw.WithLockValue(locks, byItem, s.place,
		lockmw.WithWait(5*time.Second), lockmw.WithObserver(s.counts.waits()))
	return s
}

func (s *shop) routes() http.Handler {
	r := chi.NewRouter()
	r.Use(middleware.Recoverer)
	// At the routes, because a span is named after its route. Locks come after it, so that the span
	// covers the wait.
	traced := r.With(otelhttp.NewMiddleware("", otelhttp.WithTracerProvider(s.tracer), otelhttp.WithMeterProvider(s.meter)))
	traced.Get("/items", s.list)

	// One order per user: the second click of a double click is refused while the first is at work.
	traced.With(identified, httpmw.WithLock(s.locks, httpmw.By("user", userID))).
		Post("/users/{userID}/orders", s.create)
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
	case errors.Is(err, errNoItem):
		answer(w, http.StatusNotFound, map[string]any{"error": err.Error()})
	case r.Context().Err() != nil:
		// The client has gone, or the user's lock was lost: then the middleware answers.
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
	has, err := s.store.hasOrder(ctx, o.User)
	if err != nil {
		return 0, err
	}
	if has {
		return 0, errSecond
	}
	id, err := s.buy(ctx, o)
	if err != nil {
		return 0, err
	}
	return id, s.announce(ctx, id, o.Item)
}

// place runs under the item's lock. A transaction cannot stand in for it: nobody keeps one open
// while a bank thinks.
func (s *shop) place(ctx context.Context, o order) (int64, error) {
	item, err := lockmw.Held(ctx, lockmw.Key("item", o.Item))
	if err != nil {
		return 0, err
	}
	left, err := s.store.stock(ctx, o.Item)
	if err != nil {
		return 0, err
	}
	if left <= 0 {
		return 0, errSoldOut
	}
	if err := s.outside(ctx, "pay", s.bank); err != nil {
		return 0, err
	}
	return s.store.place(ctx, o, item.Token())
}

func (s *shop) list(w http.ResponseWriter, r *http.Request) {
	items, err := s.store.items(r.Context())
	if err != nil {
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	answer(w, http.StatusOK, items)
}

// identified says who the user is: in the request's span, and for the list of the slowest waits.
func identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, _ := userID(r)
		trace.SpanFromContext(r.Context()).SetAttributes(attribute.String("user.id", user))
		next.ServeHTTP(w, r.WithContext(withActor(r.Context(), user+" ordering")))
	})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client has gone
}
