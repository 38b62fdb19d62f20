package httpmw_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// cached are response headers that a cache or proxy would prefer to Cache-Control (such as RFC 9213).
var cached = http.Header{
	"Cache-Control": {"public, max-age=60"}, "Cdn-Cache-Control": {"max-age=60"}, "Cloudflare-Cdn-Cache-Control": {"max-age=60"},
	"surrogate-control": {"max-age=60"}, "Surrogate-Control": {"max-age=60"}, "Edge-Control": {"max-age=60"}, "X-Accel-Expires": {"60"},
	"Expires": {"Thu, 01 Jan 2099 00:00:00 GMT"}, "Last-Modified": {"Thu, 01 Jan 1998 00:00:00 GMT"}, "Etag": {`"1"`}, "Age": {"1"},
	"X-Accel-Redirect": {"/order.pdf"}, "X-Sendfile": {"/order.pdf"}, "Content-Length": {"2"}, "Location": {"/orders/1"},
}

// setCached sets all of cached before next runs.
func setCached(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, values := range cached {
			w.Header()[name] = slices.Clone(values)
		}
		next.ServeHTTP(w, r)
	})
}

func TestNoCacheStoresTheAnswerToARefusal(t *testing.T) {
	gone, leave := context.WithCancel(t.Context())
	leave()
	local := lockmw.NewLocal()
	loses := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { lose(local, r) })
	teapot := httpmw.WithErrorHandler(func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusTeapot) })
	empty := func(*http.Request) (string, error) { return "", nil }
	anonymous := func(*http.Request) (string, error) { return "", httpmw.ErrNoClaim }
	for name, tt := range map[string]struct {
		handler http.Handler
		ctx     context.Context
		status  int
	}{
		"busy":                           {httpmw.WithLock(failing(lockmw.ErrBusy), user42)(never(t)), t.Context(), 409},
		"unavailable":                    {httpmw.WithLock(failing(lockmw.ErrUnavailable), user42)(never(t)), t.Context(), 503},
		"no key":                         {httpmw.WithLock(local, empty)(never(t)), t.Context(), 400},
		"no identity":                    {httpmw.WithLock(local, anonymous)(never(t)), t.Context(), 401},
		"the client has gone":            {httpmw.WithLock(failing(lockmw.ErrBusy), user42)(never(t)), gone, 499},
		"lost":                           {httpmw.WithLock(local, user42)(loses), t.Context(), 500},
		"lost, headers of the handler":   {httpmw.WithLock(local, user42)(setCached(loses)), t.Context(), 500},
		"an error handler":               {httpmw.WithLock(failing(lockmw.ErrBusy), user42, teapot)(never(t)), t.Context(), 418},
		"an error handler after a loss":  {httpmw.WithLock(local, user42, teapot)(setCached(loses)), t.Context(), 418},
		"an error handler does nothing":  {httpmw.WithLock(failing(lockmw.ErrBusy), user42, httpmw.WithErrorHandler(doesNothing))(never(t)), t.Context(), 409},
		"an error handler sets them too": {httpmw.WithLock(failing(lockmw.ErrBusy), user42, httpmw.WithErrorHandler(leavesItToTheDefault))(never(t)), t.Context(), 409},
	} {
		t.Run(name, func(t *testing.T) {
			usertest.DefaultLog(t)
			rec := serve(setCached(tt.handler), httptest.NewRequestWithContext(tt.ctx, http.MethodPost, "/", nil))
			if rec.Code != tt.status || !slices.Equal(rec.Header()["Cache-Control"], []string{"no-store"}) {
				t.Errorf("status %d, Cache-Control %q; want %d, no-store", rec.Code, rec.Header()["Cache-Control"], tt.status)
			}
			for name := range cached {
				if values := rec.Header()[name]; len(values) > 0 && name != "Cache-Control" {
					t.Errorf("%s: %q", name, values)
				}
			}
		})
	}
}

func doesNothing(http.ResponseWriter, *http.Request, error) {}

func leavesItToTheDefault(w http.ResponseWriter, r *http.Request, err error) {
	setCached(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { httpmw.WriteError(w, r, err) })).ServeHTTP(w, r)
}

// An error handler decides about its own response.
func TestAnErrorHandlerMayLetCachesStoreItsAnswer(t *testing.T) {
	handler := httpmw.WithErrorHandler(func(w http.ResponseWriter, _ *http.Request, _ error) {
		w.Header().Set("Cache-Control", "max-age=1")
		w.WriteHeader(http.StatusConflict)
	})
	rec := serve(setCached(httpmw.WithLock(failing(lockmw.ErrBusy), user42, handler)(never(t))), httptest.NewRequest(http.MethodPost, "/", nil))
	if got := rec.Header().Get("Cache-Control"); got != "max-age=1" {
		t.Errorf("Cache-Control %q", got)
	}
}

// A request that is handled keeps the headers that earlier middleware has set.
func TestHeadersOfARequestThatIsHandledStay(t *testing.T) {
	rec := serve(setCached(httpmw.WithLock(lockmw.NewLocal(), user42)(ok)), httptest.NewRequest(http.MethodPost, "/", nil))
	for name, values := range cached {
		if got := rec.Header()[name]; !slices.Equal(got, values) {
			t.Errorf("%s: %q, want %q", name, got, values)
		}
	}
}
