package httpmw_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// routers mount middleware where the user of a request is a parameter.
var routers = map[string]struct {
	id    httpmw.Part
	mount func(lock func(http.Handler) http.Handler) http.Handler
}{
	"chi With": {userParam, func(lock func(http.Handler) http.Handler) http.Handler {
		r := chi.NewRouter()
		r.With(lock).Post("/users/{userID}", ok)
		return r
	}},
	"chi Group": {userParam, func(lock func(http.Handler) http.Handler) http.Handler {
		r := chi.NewRouter()
		r.Group(func(r chi.Router) {
			r.Use(lock)
			r.Post("/users/{userID}", ok)
		})
		return r
	}},
	"chi Route": {userParam, func(lock func(http.Handler) http.Handler) http.Handler {
		r := chi.NewRouter()
		r.Route("/users/{userID}", func(r chi.Router) {
			r.Use(lock)
			r.Post("/", ok)
		})
		return r
	}},
	"chi Mount": {userParam, func(lock func(http.Handler) http.Handler) http.Handler {
		r, sub := chi.NewRouter(), chi.NewRouter()
		sub.Use(lock)
		sub.Post("/", ok)
		r.Mount("/users/{userID}", sub)
		return r
	}},
	"chi with a regular expression": {userParam, func(lock func(http.Handler) http.Handler) http.Handler {
		r := chi.NewRouter()
		r.With(lock).Post("/users/{userID:[0-9]+}", ok)
		return r
	}},
	"chi with a wildcard": {httpmw.URLParam("*"), func(lock func(http.Handler) http.Handler) http.Handler {
		r := chi.NewRouter()
		r.With(lock).Post("/users/*", ok)
		return r
	}},
	"chi with PathValue": {userValue, func(lock func(http.Handler) http.Handler) http.Handler {
		r := chi.NewRouter()
		r.With(lock).Post("/users/{userID}", ok)
		return r
	}},
	"chi behind other middleware": {userParam, func(lock func(http.Handler) http.Handler) http.Handler {
		r := chi.NewRouter()
		r.Use(middleware.Recoverer, middleware.RequestID, middleware.Compress(5), middleware.Heartbeat("/ping"))
		r.With(lock).Post("/users/{userID}", ok)
		return r
	}},
	"a ServeMux": {userValue, func(lock func(http.Handler) http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("POST /users/{userID}", lock(ok))
		return mux
	}},
	"a ServeMux with the rest of the path": {userValue, func(lock func(http.Handler) http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("/users/{userID...}", lock(ok))
		return mux
	}},
	"a ServeMux in a ServeMux": {userValue, func(lock func(http.Handler) http.Handler) http.Handler {
		mux, sub := http.NewServeMux(), http.NewServeMux()
		sub.Handle("POST /users/{userID}", lock(ok))
		mux.Handle("/", sub)
		return mux
	}},
	"chi in a ServeMux": {userParam, func(lock func(http.Handler) http.Handler) http.Handler {
		mux, sub := http.NewServeMux(), chi.NewRouter()
		sub.With(lock).Post("/users/{userID}", ok)
		mux.Handle("/users/", sub)
		return mux
	}},
	"a ServeMux in chi": {userValue, func(lock func(http.Handler) http.Handler) http.Handler {
		mux, r := http.NewServeMux(), chi.NewRouter()
		mux.Handle("/users/{userID}", lock(ok))
		r.Mount("/", mux)
		return r
	}},
	"a plain chain": {userPath, func(lock func(http.Handler) http.Handler) http.Handler { return lock(ok) }},
	"chi behind StripPrefix": {userParam, func(lock func(http.Handler) http.Handler) http.Handler {
		r, sub := chi.NewRouter(), chi.NewRouter()
		sub.With(lock).Handle("/{userID}", ok)
		r.Mount("/users", http.StripPrefix("/users", sub))
		return r
	}},
	"chi behind StripSlashes": {userValue, func(lock func(http.Handler) http.Handler) http.Handler {
		r := chi.NewRouter()
		r.Use(middleware.StripSlashes)
		r.With(lock).Handle("/users/{userID}", ok)
		return r
	}},
}

var (
	userParam, userValue = httpmw.URLParam("userID"), httpmw.PathValue("userID")

	userPath httpmw.Part = func(r *http.Request) (string, error) { return r.URL.Path[len("/users/"):], nil }
)

func TestTheMiddlewareFitsIntoEveryRouter(t *testing.T) {
	for name, router := range routers {
		t.Run(name, func(t *testing.T) {
			local := lockmw.NewLocal()
			h := router.mount(httpmw.WithLock(local, httpmw.By("user", router.id)))
			release := usertest.Occupy(t, local, "user:42")
			for _, want := range []struct {
				path   string
				status int
			}{{"/users/42", http.StatusConflict}, {"/users/43", http.StatusCreated}} {
				if rec := post(h, want.path); rec.Code != want.status {
					t.Errorf("%s: status %d: %s", want.path, rec.Code, rec.Body)
				}
			}
			release()
			if rec := post(h, "/users/42"); rec.Code != http.StatusCreated {
				t.Errorf("afterwards: status %d: %s", rec.Code, rec.Body)
			}
		})
	}
}

func TestAllSpellingsOfAParameterMeanOneLock(t *testing.T) {
	for name, router := range routers {
		if strings.Contains(name, "regular expression") { // the spellings do not match it
			continue
		}
		for spelling, want := range map[string]string{
			"42":         "user:42",
			"%34%32":     "user:42",
			"4%32":       "user:42",
			"a%3Ab":      "user:a%3Ab",
			"a:b":        "user:a%3Ab",
			"a%2Fb":      "user:a/b",
			"%2534%32":   "user:%25342",
			"100%25%34":  "user:100%254",
			"x%20y":      "user:x y",
			"%2534%2532": "user:%2534%2532",
		} {
			for _, slash := range []string{"", "/"} {
				if slash != "" && !strings.Contains(name, "StripSlashes") || spelling == "a%2Fb" && slash != "" {
					continue
				}
				var keys []string
				h := router.mount(httpmw.WithLock(recording(lockmw.NewLocal(), &keys), httpmw.By("user", router.id)))
				if rec := post(h, "/users/"+spelling+slash); !slices.Equal(keys, []string{want}) || rec.Code != http.StatusCreated {
					t.Errorf("%s, %q: keys %q, want %q; status %d", name, spelling+slash, keys, want, rec.Code)
				}
			}
		}
	}
}
