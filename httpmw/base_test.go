package httpmw_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/internal/test/webtest"
	"github.com/lockmw/go/lockmw"
)

// holding returns ctx with the lock of key, which is held until the test ends.
func holding(ctx context.Context, t *testing.T, l lockmw.Locker, key string) context.Context {
	t.Helper()
	held, hold, err := l.Lock(ctx, key, lockmw.WithWait(0))
	if err != nil {
		t.Error(err)
		return ctx
	}
	t.Cleanup(func() { _ = hold.Unlock() })
	return held
}

// carriers put a hold into the contexts of all requests of a server.
var carriers = map[string]func(s *http.Server, hold func(context.Context) context.Context){
	"BaseContext": func(s *http.Server, hold func(context.Context) context.Context) {
		base := hold(context.Background())
		s.BaseContext = func(net.Listener) context.Context { return base }
	},
	"ConnContext": func(s *http.Server, hold func(context.Context) context.Context) {
		s.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { return hold(ctx) }
	},
	"BaseContext of another server's request": func(s *http.Server, hold func(context.Context) context.Context) {
		other := context.WithValue(context.Background(), http.ServerContextKey, new(http.Server))
		other = context.WithValue(other, http.LocalAddrContextKey, &net.TCPAddr{})
		base := hold(other)
		s.BaseContext = func(net.Listener) context.Context { return base }
	},
}

// lockedFirst is middleware that takes the lock of key, without this package.
func lockedFirst(t *testing.T, l lockmw.Locker, key string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, hold, err := l.Lock(r.Context(), key, lockmw.WithWait(0))
			if err != nil {
				t.Errorf("the user's middleware: %v", err)
				return
			}
			defer hold.Unlock()
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
}

// All requests of the server would otherwise share this hold and run at the same time.
func TestARequestDoesNotEnterAHoldOfTheServersContext(t *testing.T) {
	t.Parallel()
	for carrier, carry := range carriers {
		for protocol, edit := range webtest.Protocols {
			for name, mount := range map[string]func(*testing.T, *lockmw.Local) func(http.Handler) http.Handler{
				"WithLock": func(_ *testing.T, l *lockmw.Local) func(http.Handler) http.Handler { return httpmw.WithLock(l, user42) },
				"WithRWLock": func(_ *testing.T, l *lockmw.Local) func(http.Handler) http.Handler {
					return httpmw.WithRWLock(l, user42)
				},
				"WithLockAll": func(_ *testing.T, l *lockmw.Local) func(http.Handler) http.Handler {
					return httpmw.WithLockAll(l, httpmw.All(item("7"), user42))
				},
				"below a lock of the request": func(t *testing.T, l *lockmw.Local) func(http.Handler) http.Handler {
					first, inner := lockedFirst(t, l, "item:7"), httpmw.WithLock(l, user42)
					return func(h http.Handler) http.Handler { return first(inner(h)) }
				},
				"below a lock of this package": func(t *testing.T, l *lockmw.Local) func(http.Handler) http.Handler {
					outer, inner := httpmw.WithLock(l, item("7")), httpmw.WithLock(l, user42)
					return func(h http.Handler) http.Handler { return outer(inner(h)) }
				},
			} {
				t.Run(carrier+" "+protocol+" "+name, func(t *testing.T) {
					t.Parallel()
					local := lockmw.NewLocal()
					site := webtest.NewSite(t, mount(t, local)(never(t)), edit, func(s *httptest.Server) {
						carry(s.Config, func(ctx context.Context) context.Context { return holding(ctx, t, local, "user:42") })
					})
					wantProblem(t, site.Request(t, http.MethodPost, "/"), 409, "lock-busy", true)
				})
			}
		}
	}
}

// The handler's own calls do not re-enter it either, once the request holds a lock.
func TestBelowALockTheServersHoldIsHidden(t *testing.T) {
	t.Parallel()
	local := lockmw.NewLocal()
	base := holding(context.Background(), t, local, "item:7")
	site := webtest.NewSite(t, httpmw.WithLock(local, user42)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := lockmw.Held(r.Context(), "item:7"); err == nil {
			t.Error("the handler has the server's hold")
		}
		if _, err := lockmw.Held(r.Context(), "user:42"); err != nil {
			t.Errorf("the handler lacks the request's hold: %v", err)
		}
		w.WriteHeader(http.StatusCreated)
	})), func(s *httptest.Server) { s.Config.BaseContext = func(net.Listener) context.Context { return base } })
	if a := site.Request(t, http.MethodPost, "/"); a.Status != http.StatusCreated {
		t.Errorf("status %d: %s", a.Status, a.Body)
	}
}

// Locks of the same request are one flow of work.
func TestARequestEntersItsOwnHolds(t *testing.T) {
	t.Parallel()
	for protocol, edit := range webtest.Protocols {
		for name, mount := range map[string]func(*testing.T, *lockmw.Local) func(http.Handler) http.Handler{
			"of this package": func(_ *testing.T, l *lockmw.Local) func(http.Handler) http.Handler { return httpmw.WithLock(l, user42) },
			"of other middleware": func(t *testing.T, l *lockmw.Local) func(http.Handler) http.Handler {
				return lockedFirst(t, l, "user:42")
			},
			"of other middleware, through an inner lock": func(t *testing.T, l *lockmw.Local) func(http.Handler) http.Handler {
				outer, inner := lockedFirst(t, l, "user:42"), lockedFirst(t, l, "item:7")
				return func(h http.Handler) http.Handler { return outer(inner(h)) }
			},
		} {
			t.Run(protocol+" "+name, func(t *testing.T) {
				t.Parallel()
				local := lockmw.NewLocal()
				base := holding(context.Background(), t, local, "server:1")
				h := mount(t, local)(httpmw.WithLock(local, user42)(ok))
				site := webtest.NewSite(t, h, edit, func(s *httptest.Server) {
					s.Config.BaseContext = func(net.Listener) context.Context { return base }
				})
				if a := site.Request(t, http.MethodPost, "/"); a.Status != http.StatusCreated {
					t.Errorf("status %d: %s", a.Status, a.Body)
				}
				if !usertest.IsFree(local, "user:42") {
					t.Error("the lock is not free")
				}
			})
		}
	}
	t.Run("without a server", func(t *testing.T) {
		local := lockmw.NewLocal()
		r := httptest.NewRequestWithContext(holding(t.Context(), t, local, "user:42"), http.MethodPost, "/", nil)
		if rec := serve(httpmw.WithLock(local, user42)(ok), r); rec.Code != http.StatusCreated {
			t.Errorf("status %d", rec.Code)
		}
	})
}
