package httpmw_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/lockmw"
)

// labelOf returns the label that other callers see for a request with this ID.
func labelOf(t *testing.T, id string, before []func(http.Handler) http.Handler, opts ...httpmw.Option) (label string) {
	t.Helper()
	local := lockmw.NewLocal()
	r := chi.NewRouter()
	r.Use(before...)
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		_, _, err := local.TryLock(t.Context(), "user:42")
		if e, ok := errors.AsType[*lockmw.Error](err); ok && len(e.Holders) == 1 {
			label = e.Holders[0].Label
		} else {
			t.Errorf("the lock is not held: %v", err)
		}
	})
	r.With(httpmw.WithLock(local, user42, opts...)).Handle("/one", handler)
	r.With(httpmw.WithRWLock(local, user42, opts...)).Handle("/rw", handler)
	r.With(httpmw.WithLockAll(local, httpmw.All(user42), opts...)).Handle("/all", handler)
	for i, route := range []string{"/one", "/rw", "/all"} {
		last := label
		req := httptest.NewRequest(http.MethodPost, route, nil)
		req.Header.Set("X-Request-Id", id)
		if serve(r, req); i > 0 && label != last {
			t.Errorf("%s: the label is %q, not %q", route, label, last)
		}
	}
	return label
}

func TestTheLabelIsTheIDOfTheRequest(t *testing.T) {
	withID := []func(http.Handler) http.Handler{middleware.RequestID}
	for _, tt := range []struct {
		id     string
		before []func(http.Handler) http.Handler
		opts   []httpmw.Option
		want   string
	}{
		{"req-7", withID, nil, "req-7"},
		{"req-7", nil, nil, ""}, // the header alone has no effect
		{"a b\u00e9" + strings.Repeat("x", 200), withID, nil, "a_b__" + strings.Repeat("x", 95)},
		{"req-7", withID, []httpmw.Option{lockmw.WithLabel("route")}, "route"},
	} {
		if got := labelOf(t, tt.id, tt.before, tt.opts...); got != tt.want {
			t.Errorf("id %q: the label is %q, want %q", tt.id, got, tt.want)
		}
	}
}
