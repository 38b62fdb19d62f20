package httpmw_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/webtest"
	"github.com/lockmw/go/lockmw"
)

// quiet is a handler that does nothing.
var quiet = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// bareLocker locks without the middleware. Its cost is subtracted from the middleware's.
func bareLocker(l lockmw.Locker, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, err := user42(r)
		if err != nil {
			panic(err)
		}
		ctx, hold, err := l.Lock(r.Context(), key)
		if err != nil {
			panic(err)
		}
		next.ServeHTTP(w, r.WithContext(ctx))
		if err := hold.Unlock(); err != nil {
			panic(err)
		}
	})
}

// uncontended serves one request with h; no other request competes for the lock.
func uncontended(h http.Handler) func() {
	w, r := webtest.HTTP1Writer{ResponseRecorder: httptest.NewRecorder()}, httptest.NewRequest(http.MethodPost, "/", nil)
	return func() { h.ServeHTTP(w, r) }
}

func TestTheMiddlewareAllocatesLittle(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	bare := testing.AllocsPerRun(1000, uncontended(bareLocker(lockmw.NewLocal(), quiet)))
	// The tracked writer, the maximum hold's timer, and the context and timer that limit the wait, which a Locker's own default may
	// need.
	const most = 9
	if got := testing.AllocsPerRun(1000, uncontended(httpmw.WithLock(lockmw.NewLocal(), user42)(quiet))) - bare; got > most {
		t.Errorf("%v allocations more than the lock itself, want at most %v", got, most)
	}
}

func BenchmarkBareLocker(b *testing.B) { benchmark(b, bareLocker(lockmw.NewLocal(), quiet)) }

func BenchmarkWithLock(b *testing.B) {
	benchmark(b, httpmw.WithLock(lockmw.NewLocal(), user42)(quiet))
}

func benchmark(b *testing.B, h http.Handler) {
	serve := uncontended(h)
	b.ReportAllocs()
	for b.Loop() {
		serve()
	}
}
