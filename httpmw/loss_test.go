package httpmw_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// lossServers are the writers that a loss is seen through.
var lossServers = map[string]struct {
	around   func(http.Handler) http.Handler
	protocol func(*httptest.Server)
}{
	"HTTP1":             {writers["directly"], protocols["HTTP1"]},
	"HTTP2":             {writers["directly"], protocols["HTTP2"]},
	"behind a stranger": {behindStranger, protocols["HTTP1"]},
	"behind a log":      {writers["behind a log"], protocols["HTTP1"]},
	"behind a recorder": {behindRecorder, protocols["HTTP1"]},
}

// lose has the holder lose the lock of user42, and returns when it has noticed.
func lose(local *lockmw.Local, r *http.Request) {
	local.Expire("user:42")
	<-r.Context().Done()
}

func TestASuccessDoesNotGetThroughAfterTheLoss(t *testing.T) {
	captureLog(t)
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request) error{
		"a status": func(w http.ResponseWriter, _ *http.Request) error { w.WriteHeader(http.StatusCreated); return nil },
		"a redirect": func(w http.ResponseWriter, r *http.Request) error {
			http.Redirect(w, r, "/", http.StatusSeeOther)
			return nil
		},
		"a status after a hint": func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusOK)
			return nil
		},
		"a body":   func(w http.ResponseWriter, _ *http.Request) error { _, err := w.Write([]byte("ok")); return err },
		"a string": func(w http.ResponseWriter, _ *http.Request) error { _, err := io.WriteString(w, "ok"); return err },
		"a copy": func(w http.ResponseWriter, _ *http.Request) error {
			_, err := io.Copy(w, io.LimitReader(strings.NewReader("ok"), 2))
			return err
		},
		"a flush":                   func(w http.ResponseWriter, _ *http.Request) error { return flush(w) },
		"a flush by the controller": func(w http.ResponseWriter, _ *http.Request) error { return http.NewResponseController(w).Flush() },
		"another protocol": func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(http.StatusSwitchingProtocols)
			return nil
		},
		"a connection taken over": func(w http.ResponseWriter, _ *http.Request) error {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
			return err
		},
		"a status and a body": func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(http.StatusCreated)
			_, err := io.WriteString(w, "ok")
			return err
		},
	} {
		for on, server := range lossServers {
			if on == "HTTP2" && name == "a connection taken over" {
				continue
			}
			t.Run(name+" "+on, func(t *testing.T) {
				local := lockmw.NewLocal()
				site := newSite(t, server.around(httpmw.WithLock(local, user42)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					lose(local, r)
					if err := answer(w, r); err != nil != tells(w, name) || err != nil && !errors.Is(err, lockmw.ErrLost) {
						t.Errorf("the handler was told %v", err)
					}
				}))), server.protocol)
				site.noRedirects()
				site.ask(t, http.MethodPost, "/").wantProblem(t, 500, "lock-lost", false)
			})
		}
	}
}

// tells reports whether w can return an error of what is named.
func tells(w http.ResponseWriter, name string) bool {
	switch name {
	case "a body", "a string", "a copy", "a status and a body", "a connection taken over":
		return true
	case "a flush by the controller":
		_, flushes := w.(http.Flusher)
		_, with := w.(flushErrorer)
		return with || !flushes
	}
	return false
}

// flush flushes w if it says that it can.
func flush(w http.ResponseWriter) error {
	if f, can := w.(http.Flusher); can {
		f.Flush()
	}
	return nil
}

func TestWhatTheLossDoesNotTouch(t *testing.T) {
	captureLog(t)
	for name, tt := range map[string]struct {
		answer func(http.ResponseWriter)
		status int
		body   string
	}{
		"the handler's own error": {func(w http.ResponseWriter) { http.Error(w, "gone wrong", http.StatusTeapot) }, 418, "gone wrong\n"},
		"an error after a success that was refused": {func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusOK)
			http.Error(w, "gone wrong", http.StatusTeapot)
		}, 418, "gone wrong\n"},
	} {
		for on, server := range lossServers {
			t.Run(name+" "+on, func(t *testing.T) {
				local := lockmw.NewLocal()
				site := newSite(t, server.around(httpmw.WithLock(local, user42)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					lose(local, r)
					tt.answer(w)
				}))), server.protocol)
				if a := site.ask(t, http.MethodPost, "/"); a.status != tt.status || a.body != tt.body {
					t.Errorf("status %d, body %q; want %d, %q", a.status, a.body, tt.status, tt.body)
				}
			})
		}
	}
}

// The first byte of a copy is what begins a response, and the lock may be lost before it is there.
func TestACopyWhoseSourceOutlivesTheLock(t *testing.T) {
	captureLog(t)
	for on, server := range lossServers {
		t.Run(on, func(t *testing.T) {
			local := lockmw.NewLocal()
			site := newSite(t, server.around(httpmw.WithLock(local, user42)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				slow := readerFunc(func(p []byte) (int, error) {
					lose(local, r)
					return copy(p, "ok"), io.EOF
				})
				if _, err := io.Copy(w, slow); !errors.Is(err, lockmw.ErrLost) {
					t.Errorf("the handler was told %v", err)
				}
			}))), server.protocol)
			site.ask(t, http.MethodPost, "/").wantProblem(t, 500, "lock-lost", false)
		})
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A context keeps its first cause.
func TestALossAfterTheDeadlineIsALoss(t *testing.T) {
	captureLog(t)
	local := lockmw.NewLocal()
	ctx, cancel := context.WithCancel(t.Context())
	h := httpmw.WithLock(local, user42)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		local.Expire("user:42")
		w.WriteHeader(http.StatusCreated)
	}))
	time.AfterFunc(time.Millisecond, cancel)
	rec := serve(h, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil))
	if p := readProblem(t, rec); p.Status != 500 || p.Type != "lock-lost" {
		t.Errorf("got %+v, want 500 lock-lost", p)
	}
}

// The outer lock was taken by a middleware that knows nothing of responses.
func TestASuccessDoesNotGetThroughAfterTheLossOfAnOuterLock(t *testing.T) {
	captureLog(t)
	for name, answer := range map[string]http.Handler{"a status": ok, "nothing": quiet} {
		t.Run(name, func(t *testing.T) {
			local := lockmw.NewLocal()
			inner := httpmw.WithLock(local, header("From"))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				lose(local, r)
				answer.ServeHTTP(w, r)
			}))
			r := transfer("1", "2")
			ctx, outer, err := local.Lock(r.Context(), "user:42")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = outer.Unlock() }()
			if p := readProblem(t, serve(inner, r.WithContext(ctx))); p.Status != 500 || p.Type != "lock-lost" {
				t.Errorf("got %+v, want 500 lock-lost", p)
			}
		})
	}
}

func TestAClosedClientFailsAResponseThatHasNotBegun(t *testing.T) {
	captureLog(t)
	for name, answer := range map[string]http.Handler{"nothing written": quiet, "a success": ok} {
		t.Run(name, func(t *testing.T) {
			locks := usertest.Client(t, redistest.Mini(t))
			h := httpmw.WithLock(locks, user42)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_ = locks.Close()
				<-r.Context().Done()
				answer.ServeHTTP(w, r)
			}))
			if p := readProblem(t, post(h, "/")); p.Status != 500 || p.Type != "lock-lost" {
				t.Errorf("got %+v, want 500 lock-lost", p)
			}
		})
	}
}

func TestTheHeaderOfTheResponseThatIsNotSentIsRemoved(t *testing.T) {
	captureLog(t)
	local := lockmw.NewLocal()
	gone := []string{
		"Accept-Ranges", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Length", "Content-Location",
		"Content-Range", "Etag", "Expires", "Last-Modified", "Location", "Refresh", "Retry-After", "Trailer", http.TrailerPrefix + "X-Sum",
	}
	locked := httpmw.WithLock(local, user42)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range gone {
			w.Header()[name] = []string{"x"}
		}
		http.SetCookie(w, &http.Cookie{Name: "order", Value: "1"})
		lose(local, r)
	}))
	rec := post(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "7")
		w.Header().Set("Content-Security-Policy", "default-src 'none'")
		w.Header().Set("Vary", "Origin")
		w.Header().Set("Set-Cookie", "session=1")
		locked.ServeHTTP(w, r)
	}), "/")
	readProblem(t, rec)
	for _, name := range gone {
		if values, found := rec.Header()[name]; found {
			t.Errorf("%s: %q", name, values)
		}
	}
	for name, want := range map[string]string{"X-Request-Id": "7", "Content-Security-Policy": "default-src 'none'", "Vary": "Origin", "Set-Cookie": "session=1"} {
		if got := rec.Header()[name]; len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q: other middleware has set it", name, got, want)
		}
	}
}
