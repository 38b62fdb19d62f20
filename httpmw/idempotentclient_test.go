package httpmw_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/internal/test/webtest"
	"github.com/lockmw/go/lockmw"
)

// hangUp sends a request and closes the connection when step is received; the client never sees an answer.
func hangUp(t *testing.T, site *webtest.Site, step <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		resp, err := site.Send(ctx, http.MethodPost, "/", strings.NewReader("cart"), "Idempotency-Key", "k-1")
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}()
	usertest.Receive(t, "the step", step)
	cancel()
	<-ended
}

// A client disconnects at every step, and then tries again. Whatever it missed, the work is done once, or is known to be unfinished.
func TestAClientThatHangsUp(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		at   string // the step
		want int    // the status of the second try
		runs int32  // after both
	}{
		"before the run begins":      {"begin", 201, 1},
		"while the handler works":    {"work", 409, 1}, // the handler stops
		"while a stubborn one works": {"stubborn", 201, 1},
		"while it is recorded":       {"end", 201, 1},
		"after it was recorded":      {"sent", 201, 1},
	} {
		for protocol, edit := range webtest.Protocols {
			t.Run(name+" "+protocol, func(t *testing.T) {
				t.Parallel()
				step, first := make(chan struct{}), atomic.Bool{}
				first.Store(true)
				left := make(chan struct{}) // the server has seen it
				reach := func(ctx context.Context, at string) {
					if at == tt.at && first.CompareAndSwap(true, false) {
						close(step)
						if ctx != nil {
							<-ctx.Done()
						} else {
							<-left
						}
					}
				}
				store := newTestStore()
				store.begins = func(ctx context.Context) error { reach(ctx, "begin"); return nil }
				store.ends = func(e idempotency.End) error { reach(nil, "end"); return nil }
				var runs atomic.Int32
				h := once(store, func(w http.ResponseWriter, r *http.Request) {
					if tt.at == "work" && first.Load() {
						runs.Add(1)
						reach(r.Context(), "work")
						return
					}
					reach(r.Context(), "stubborn")
					counted(&runs)(w, r)
				})
				done := make(chan struct{}, 2)
				site := webtest.NewSite(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					stop := context.AfterFunc(r.Context(), func() { close(left) })
					defer stop()
					h.ServeHTTP(w, r)
					reach(nil, "sent")
					done <- struct{}{}
				}), edit)
				hangUp(t, site, step)
				usertest.Receive(t, "the end of the first request", done)
				a := site.Do(t, http.MethodPost, "/", strings.NewReader("cart"), "Idempotency-Key", "k-1")
				replayed := a.Header.Get("Idempotent-Replayed") == "true"
				if a.Status != tt.want || runs.Load() != tt.runs || replayed != (tt.want == 201 && tt.at != "begin") {
					t.Errorf("status %d: %s; %d runs, replayed %v", a.Status, a.Body, runs.Load(), replayed)
				}
			})
		}
	}
}

// A repetition that waits for the first run stops waiting when its client disconnects.
func TestAWaitingRepetitionHangsUp(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	contended, waits := usertest.OnContended(t)
	runner := idempotency.New(lockmw.NewLocal(), idempotency.WithWait(time.Minute), idempotency.WithLockOptions(contended))
	logged, statuses := webtest.AccessLog(httpmw.Idempotent(runner, scoped, idempotency.Refuse)(g))
	site := webtest.NewSite(t, logged)
	first := make(chan webtest.Answer, 1)
	go func() { first <- site.Do(t, http.MethodPost, "/", strings.NewReader("cart"), "Idempotency-Key", "k-1") }()
	usertest.Receive(t, "the first request", g.entered)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		waits()
		cancel()
	}()
	if resp, err := site.Send(ctx, http.MethodPost, "/", strings.NewReader("cart"), "Idempotency-Key", "k-1"); err == nil {
		_ = resp.Body.Close()
		t.Errorf("status %d", resp.StatusCode)
	}
	if status := usertest.Receive(t, "the end of the repetition", statuses); status != 499 {
		t.Errorf("status %d, want 499", status)
	}
	g.Open()
	if a := usertest.Receive(t, "the first answer", first); a.Status != 201 {
		t.Errorf("status %d", a.Status)
	}
}

// A client that disconnects while it sends the body has begun nothing.
func TestAClientHangsUpWithinTheBody(t *testing.T) {
	t.Parallel()
	logged, statuses := webtest.AccessLog(once(lockmw.NewLocal(), never(t).ServeHTTP))
	site := webtest.NewSite(t, logged)
	conn, err := net.Dial("tcp", site.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k-1\r\nContent-Length: 100\r\n\r\nhalf")
	_ = conn.Close()
	if status := usertest.Receive(t, "the end of the request", statuses); status != 400 && status != 499 {
		t.Errorf("status %d", status)
	}
}

// net/http's Transport repeats a POST that has an Idempotency-Key by itself, if its connection breaks before an answer.
func TestGosClientRepeatsByItself(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"while it works", "after it is recorded"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			type connKey struct{}
			var runs, requests atomic.Int32
			cut := func(r *http.Request) { _ = r.Context().Value(connKey{}).(net.Conn).Close() }
			h := once(lockmw.NewLocal(), func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost && runs.Load() == 0 && at == "while it works" {
					cut(r)
					usertest.Eventually(t, "the Transport repeats the request", patience, func() bool { return requests.Load() == 2 })
				}
				counted(&runs)(w, r)
			})
			site := webtest.NewSite(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost && requests.Add(1) == 1 && at == "after it is recorded" {
					h.ServeHTTP(httptest.NewRecorder(), r)
					cut(r)
					return
				}
				h.ServeHTTP(w, r)
			}), func(s *httptest.Server) {
				s.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
			})
			kept := false
			trace := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{PutIdleConn: func(err error) { kept = err == nil }})
			for !kept { // it repeats only on a connection that was used before, and keeps none that was slow
				resp, err := site.Send(trace, http.MethodGet, "/", nil)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			runs.Store(0)
			a := site.Do(t, http.MethodPost, "/", strings.NewReader("cart"), "Idempotency-Key", "k-1")
			if a.Status != 201 || a.Body != "order 1" || a.Header.Get("Idempotent-Replayed") != "true" || runs.Load() != 1 || requests.Load() != 2 {
				t.Errorf("%v; %d runs of %d requests", a, runs.Load(), requests.Load())
			}
		})
	}
}

// A panic after 201 reaches the server with nothing sent.
func TestAPanicAfterASuccessOverTheWire(t *testing.T) {
	t.Parallel()
	site := webtest.NewSite(t, once(lockmw.NewLocal(), func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "done")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	conn, err := net.Dial("tcp", site.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k-1\r\nContent-Length: 0\r\n\r\n")
	if line, err := bufio.NewReader(conn).ReadString('\n'); !errors.Is(err, io.EOF) || line != "" {
		t.Errorf("%q, %v", line, err)
	}
	a := site.Request(t, http.MethodPost, "/", "Idempotency-Key", "k-1")
	if a.Status != 409 || !strings.Contains(a.Body, "idempotency-unknown-outcome") {
		t.Errorf("%v", a)
	}
}
