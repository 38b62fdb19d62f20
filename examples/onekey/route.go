package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/go-chi/chi/v5"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/lockmw"
)

// routes is the HTTP side: a request sells an item. It waits up to 10 s for other work on the same item.
func (s *scene) routes(locks lockmw.Locker) http.Handler {
	byItem := httpmw.By("item", httpmw.URLParam("item"))
	traced := otelhttp.NewMiddleware("", otelhttp.WithTracerProvider(s.tracer), otelhttp.WithPropagators(w3c))
	r := chi.NewRouter()
	r.With(traced, httpmw.WithLock(locks, byItem, lockmw.WithWait(10*time.Second))).
		Post("/items/{item}/sell", func(w http.ResponseWriter, r *http.Request) {
			s.work(r.Context(), "request", "sells", chi.URLParam(r, "item"))
			w.WriteHeader(http.StatusCreated)
		})
	return r
}

// openShop starts the server. The function that it returns sells an item.
func (s *scene) openShop(locks lockmw.Locker) (sell func(ctx context.Context, item string) error) {
	shop := httptest.NewServer(s.routes(locks))
	s.atEnd(func() error { shop.Close(); return nil })
	return func(ctx context.Context, item string) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, shop.URL+"/items/"+item+"/sell", nil)
		if err != nil {
			return err
		}
		w3c.Inject(ctx, propagation.HeaderCarrier(req.Header))
		resp, err := shop.Client().Do(req)
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusCreated {
			err = fmt.Errorf("sale of item %s: %s", item, resp.Status)
		}
		return errors.Join(err, resp.Body.Close())
	}
}
