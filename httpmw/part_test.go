package httpmw_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// A client may build a path whose decoded segments look like escaped ones.
func TestParametersOfAHostilePathShareNoLock(t *testing.T) {
	const refused = ""
	for how, mount := range map[string]func(r chi.Router, mw func(http.Handler) http.Handler){
		"With": func(r chi.Router, mw func(http.Handler) http.Handler) {
			r.With(mw).Handle("/users/{id}/items/{item}", ok)
		},
		"inside Route": func(r chi.Router, mw func(http.Handler) http.Handler) {
			r.Route("/users/{id}", func(r chi.Router) {
				r.Use(mw)
				r.Handle("/items/{item}", ok)
			})
		},
		"inside Route, With": func(r chi.Router, mw func(http.Handler) http.Handler) {
			r.Route("/users/{id}", func(r chi.Router) { r.With(mw).Handle("/items/{item}", ok) })
		},
	} {
		for target, want := range map[string]string{
			"/users/%41/items/7":          "user:A",
			"/users/%41/items/%2541":      "user:A",
			"/users/%2541/items/%41":      "user:%2541",
			"/users/%2541/items/7":        "user:%2541",
			"/users/%2525/items/%2525":    "user:%2525",
			"/users/%2525/items/%41":      "user:%2525",
			"/users/%41/items/7/":         "user:A",
			"/users/%41/items/%2541/":     "user:A",
			"/users/%2541/items/%41/":     "user:%2541",
			"/users/%2541/items/7/":       "user:%2541",
			"/users/%2525/items/%2525/":   "user:%2525",
			"/%75sers/%2541/items/7/":     "user:%2541",
			"/%75sers/%2525/items/%62/":   "user:%2525",
			"/use%72s/%2525/items/users/": refused,
			"/use%72s/%2541/items/users/": "user:%2541",
		} {
			for part, id := range map[string]httpmw.Part{"URLParam": httpmw.URLParam("id"), "PathValue": httpmw.PathValue("id")} {
				var keys []string
				r := chi.NewRouter()
				r.Use(middleware.StripSlashes)
				mount(r, httpmw.WithLock(recording(lockmw.NewLocal(), &keys), httpmw.By("user", id)))
				rec := post(r, target)
				if want == refused {
					if p := readProblem(t, rec); p.Type != "lock-invalid-key" || len(keys) > 0 {
						t.Errorf("%s, %s, %q: keys %q, %+v; want it refused", how, part, target, keys, p)
					}
				} else if !slices.Equal(keys, []string{want}) || rec.Code != http.StatusCreated {
					t.Errorf("%s, %s, %q: keys %q, want %q; status %d", how, part, target, keys, want, rec.Code)
				}
			}
		}
	}
}

// With CleanPath, chi routes on a path that is neither the escaped one nor the decoded one.
func TestAHostilePathThatIsCleanedIsRefused(t *testing.T) {
	var keys []string
	r := chi.NewRouter()
	r.Use(middleware.CleanPath)
	r.With(httpmw.WithLock(recording(lockmw.NewLocal(), &keys), httpmw.By("user", httpmw.URLParam("id")))).Handle("/users/{id}/x", ok)
	if rec := post(r, "/users//%41/x"); rec.Code != http.StatusCreated || !slices.Equal(keys, []string{"user:A"}) {
		t.Errorf("keys %q, status %d", keys, rec.Code)
	}
	if rec := post(r, "/%2Fusers%2F%2541%2Fx/../users//%41/x"); rec.Code != http.StatusBadRequest || len(keys) > 1 {
		t.Errorf("keys %q, status %d", keys, rec.Code)
	}
}

func TestAParameterOutsideOfItsRouteIsAMistakeOfTheServer(t *testing.T) {
	param, value := httpmw.By("user", httpmw.URLParam("userID")), httpmw.By("user", httpmw.PathValue("userID"))
	withLock := func(key httpmw.KeyFunc) func(http.Handler) http.Handler {
		return httpmw.WithLock(lockmw.NewLocal(), key)
	}
	topLevel := func(key httpmw.KeyFunc) http.Handler {
		r := chi.NewRouter()
		r.Use(withLock(key))
		r.Handle("/users/{userID}/orders", never(t))
		return r
	}
	misspelt := func(key httpmw.KeyFunc) http.Handler {
		r := chi.NewRouter()
		r.With(withLock(key)).Handle("/users/{id}/orders", never(t))
		return r
	}
	mux := http.NewServeMux()
	mux.Handle("/users/{id}/orders", withLock(value)(never(t)))
	for name, h := range map[string]http.Handler{
		"URLParam without chi":             withLock(param)(never(t)),
		"URLParam under Use at the top":    topLevel(param),
		"URLParam of another name":         misspelt(param),
		"PathValue without a mux":          withLock(value)(never(t)),
		"PathValue under Use at the top":   topLevel(value),
		"PathValue of another name in chi": misspelt(value),
		"PathValue of another name":        mux,
	} {
		t.Run(name, func(t *testing.T) {
			log := usertest.DefaultLog(t)
			rec := post(h, "/users/42/orders")
			readProblem(t, rec)
			if rec.Code != http.StatusInternalServerError || strings.Contains(rec.Body.String(), "userID") {
				t.Errorf("status %d, body %s; want 500 without details", rec.Code, rec.Body)
			}
			if !strings.Contains(log.String(), "userID") {
				t.Errorf("the log does not name the parameter: %s", log)
			}
		})
	}
}

func TestPathValueSetByHand(t *testing.T) {
	local := lockmw.NewLocal()
	usertest.Occupy(t, local, "user:42")
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.SetPathValue("userID", "42")
	h := httpmw.WithLock(local, httpmw.By("user", httpmw.PathValue("userID")))(never(t))
	if rec := serve(h, r); rec.Code != http.StatusConflict {
		t.Errorf("status %d, want 409", rec.Code)
	}
}

func TestClaimTakesTheIdentityFromTheContext(t *testing.T) {
	type userKey struct{}
	userID := func(ctx context.Context) (string, bool) {
		id, found := ctx.Value(userKey{}).(string)
		return id, found
	}
	var keys []string
	h := httpmw.WithLock(recording(lockmw.NewLocal(), &keys), httpmw.By("user", httpmw.Claim(userID)))(ok)
	ctx := context.WithValue(t.Context(), userKey{}, "42")
	serve(h, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil))
	if want := []string{"user:42"}; !slices.Equal(keys, want) {
		t.Errorf("keys %q, want %q", keys, want)
	}
}
