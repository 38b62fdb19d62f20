package httpmw_test

import (
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/internal/test/webtest"
)

func TestTheMiddlewareFitsIntoEveryRouter(t *testing.T) {
	t.Parallel()
	type mw = func(http.Handler) http.Handler
	param, value := httpmw.URLParam("userID"), httpmw.PathValue("userID")
	plain := func(r *http.Request) (string, error) { return r.URL.Path[len("/users/"):], nil }
	for name, tt := range map[string]struct {
		id    httpmw.Part
		mount func(lock mw) http.Handler
	}{
		"chi With": {param, func(lock mw) http.Handler {
			r := chi.NewRouter()
			r.With(lock).Post("/users/{userID}", ok)
			return r
		}},
		"chi Group": {param, func(lock mw) http.Handler {
			r := chi.NewRouter()
			r.Group(func(r chi.Router) {
				r.Use(lock)
				r.Post("/users/{userID}", ok)
			})
			return r
		}},
		"chi Route": {param, func(lock mw) http.Handler {
			r := chi.NewRouter()
			r.Route("/users/{userID}", func(r chi.Router) {
				r.Use(lock)
				r.Post("/", ok)
			})
			return r
		}},
		"chi Mount": {param, func(lock mw) http.Handler {
			r, sub := chi.NewRouter(), chi.NewRouter()
			sub.Use(lock)
			sub.Post("/", ok)
			r.Mount("/users/{userID}", sub)
			return r
		}},
		"chi with a regular expression": {param, func(lock mw) http.Handler {
			r := chi.NewRouter()
			r.With(lock).Post("/users/{userID:[0-9]+}", ok)
			return r
		}},
		"chi with a wildcard": {httpmw.URLParam("*"), func(lock mw) http.Handler {
			r := chi.NewRouter()
			r.With(lock).Post("/users/*", ok)
			return r
		}},
		"chi with PathValue": {value, func(lock mw) http.Handler {
			r := chi.NewRouter()
			r.With(lock).Post("/users/{userID}", ok)
			return r
		}},
		"chi behind other middleware": {param, func(lock mw) http.Handler {
			r := chi.NewRouter()
			r.Use(middleware.Recoverer, middleware.RequestID, middleware.Compress(5), middleware.Heartbeat("/ping"))
			r.With(lock).Post("/users/{userID}", ok)
			return r
		}},
		"a ServeMux": {value, func(lock mw) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("POST /users/{userID}", lock(ok))
			return mux
		}},
		"a ServeMux with the rest of the path": {value, func(lock mw) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("/users/{userID...}", lock(ok))
			return mux
		}},
		"a ServeMux in a ServeMux": {value, func(lock mw) http.Handler {
			mux, sub := http.NewServeMux(), http.NewServeMux()
			sub.Handle("POST /users/{userID}", lock(ok))
			mux.Handle("/", sub)
			return mux
		}},
		"chi in a ServeMux": {param, func(lock mw) http.Handler {
			mux, sub := http.NewServeMux(), chi.NewRouter()
			sub.With(lock).Post("/users/{userID}", ok)
			mux.Handle("/users/", sub)
			return mux
		}},
		"a ServeMux in chi": {value, func(lock mw) http.Handler {
			mux, r := http.NewServeMux(), chi.NewRouter()
			mux.Handle("/users/{userID}", lock(ok))
			r.Mount("/", mux)
			return r
		}},
		"a plain chain": {plain, func(lock mw) http.Handler { return lock(ok) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Mini(t)
			locks, other := usertest.Client(t, s), usertest.Client(t, s)
			site := webtest.NewSite(t, tt.mount(httpmw.WithLock(locks, httpmw.By("user", tt.id))))
			release := usertest.Occupy(t, other, "user:42")
			wantProblem(t, site.Request(t, http.MethodPost, "/users/42"), 409, "lock-busy", true)
			if a := site.Request(t, http.MethodPost, "/users/43"); a.Status != http.StatusCreated {
				t.Errorf("another user: status %d: %s", a.Status, a.Body)
			}
			release()
			if a := site.Request(t, http.MethodPost, "/users/42"); a.Status != http.StatusCreated {
				t.Errorf("afterwards: status %d: %s", a.Status, a.Body)
			}
		})
	}
}
