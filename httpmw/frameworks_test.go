package httpmw_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/mounttest"
)

// The list of cases is shared with the modules for other frameworks.
func TestNetHTTPKeepsThePromises(t *testing.T) {
	f := mounttest.Framework{User: httpmw.PathValue("userID"), Serve: func(s *mounttest.Shop) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("POST /users/{userID}/orders", mounted(s, orders(s)))
		mux.Handle("POST /users/{userID}/raw", mounted(s, s.Raw))
		return noted(s)(silently(identified(mux)))
	}}
	f.Run(t)
}

func TestChiKeepsThePromises(t *testing.T) {
	f := mounttest.Framework{User: httpmw.URLParam("userID"), HidesForms: true, Serve: func(s *mounttest.Shop) http.Handler {
		r := chi.NewRouter()
		r.Use(noted(s), silently, identified)
		r.With(mounts(s)...).Post("/users/{userID}/orders", orders(s))
		if s.Raw != nil {
			r.With(mounts(s)...).Post("/users/{userID}/raw", s.Raw)
		}
		return r
	}}
	f.Run(t)
}

func mounts(s *mounttest.Shop) []func(http.Handler) http.Handler {
	if s.Once == nil {
		return s.Mount
	}
	return append([]func(http.Handler) http.Handler{httpmw.Idempotent(s.Once.Runner, s.Once.Scope, s.Once.Policy)}, s.Mount...)
}

func mounted(s *mounttest.Shop, h http.Handler) http.Handler {
	for _, m := range slices.Backward(mounts(s)) {
		h = m(h)
	}
	return h
}

func identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(w, mounttest.Identify(r)) })
}

// silently recovers from panics.
func silently(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

func noted(s *mounttest.Shop) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
			next.ServeHTTP(seen, r)
			s.Note(r, seen.Status())
		})
	}
}

// orders handles an order. A handler without a framework answers all its errors; here it leaves the unknown ones to the lock.
func orders(s *mounttest.Shop) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var err error
		if s.Order != nil {
			err = s.Order(r.Context())
		}
		switch {
		case errors.Is(err, mounttest.ErrNoStock):
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		case err == nil:
			w.Header().Set("X-Next", "ran")
			w.Header().Set("Location", "/orders/7")
			w.WriteHeader(http.StatusCreated)
			_ = json.NewEncoder(w).Encode(map[string]string{"user": r.PathValue("userID")})
		}
	}
}
