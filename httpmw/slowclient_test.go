package httpmw_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"testing"
	"time"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/slowclient"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/internal/test/webtest"
	"github.com/lockmw/go/lockmw"
)

// ends are the ways in which the context of a handler ends. Each returns the context outside of the lock, and what ends it.
var ends = map[string]struct {
	of    func(ctx context.Context, local *lockmw.Local) (outside context.Context, end func())
	cause error
}{
	"a timeout outside": {
		func(ctx context.Context, _ *lockmw.Local) (context.Context, func()) {
			return usertest.WithDeadline(ctx)
		}, context.DeadlineExceeded,
	},
	"a loss": {
		func(ctx context.Context, local *lockmw.Local) (context.Context, func()) {
			return ctx, func() { local.Expire("user:42") }
		}, lockmw.ErrLost,
	},
}

// eachEnd runs test for each end, 300 ms after a handler has begun, on each server. serve puts the lock around a handler.
func eachEnd(t *testing.T, test func(t *testing.T, local *lockmw.Local, cause error, serve func(http.Handler) *webtest.Site)) {
	t.Helper()
	for end, e := range ends {
		for name, server := range webtest.Servers {
			if name == "behind a stranger" { // it cannot set deadlines
				continue
			}
			t.Run(end+" "+name, func(t *testing.T) {
				t.Parallel()
				local := lockmw.NewLocal()
				type endKey struct{}
				test(t, local, e.cause, func(h http.Handler) *webtest.Site {
					locked := server.Around(httpmw.WithLock(local, user42)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						time.AfterFunc(300*time.Millisecond, r.Context().Value(endKey{}).(func()))
						h.ServeHTTP(w, r)
					})))
					return webtest.NewSite(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						ctx, end := e.of(r.Context(), local)
						locked.ServeHTTP(w, r.WithContext(context.WithValue(ctx, endKey{}, end)))
					}), server.Protocol)
				})
			})
		}
	}
}

// stalled returns a body that stops after begin until the test ends.
func stalled(t *testing.T, begin string) io.Reader {
	r, w := io.Pipe()
	t.Cleanup(func() { _ = w.Close() })
	go func() { _, _ = io.WriteString(w, begin) }()
	return r
}

func TestAClientThatSendsNoBodyDoesNotKeepTheLock(t *testing.T) {
	t.Parallel()
	eachEnd(t, func(t *testing.T, local *lockmw.Local, cause error, serve func(http.Handler) *webtest.Site) {
		read := make(chan error, 1)
		site := serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			read <- err
			http.Error(w, "no body", http.StatusTeapot)
		}))
		a := site.Do(t, http.MethodPost, "/", stalled(t, "begin"))
		if err := usertest.Receive(t, "the handler reads", read); !errors.Is(err, cause) || a.Status != http.StatusTeapot {
			t.Errorf("the body ends with %v, want %v; status %d, want that of the handler", err, cause, a.Status)
		}
		usertest.Eventually(t, "the lock is free", patience, func() bool { return usertest.IsFree(local, "user:42") })
	})
}

func TestAClientThatReadsNoResponseDoesNotKeepTheLock(t *testing.T) {
	t.Parallel()
	for how, write := range map[string]func(w http.ResponseWriter) error{
		"written": func(w http.ResponseWriter) (err error) {
			for err == nil {
				_, err = w.Write(make([]byte, 1<<20))
			}
			return err
		},
		"copied": func(w http.ResponseWriter) error {
			_, err := io.Copy(w, endless{})
			return err
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			eachEnd(t, func(t *testing.T, local *lockmw.Local, _ error, serve func(http.Handler) *webtest.Site) {
				wrote := make(chan error, 1)
				site := serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { wrote <- write(w) }))
				resp, err := site.Send(t.Context(), http.MethodGet, "/", nil)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				if err := usertest.Receive(t, "the handler writes", wrote); err == nil {
					t.Error("the handler has written all")
				}
				usertest.Eventually(t, "the lock is free", patience, func() bool { return usertest.IsFree(local, "user:42") })
			})
		})
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// size is more than a server buffers and than HTTP/2 sends before the client reads, and little enough for a busy machine.
const size = 128 << 10

// net/http reads the rest of the body before it sends the header of a response.
func TestAHandlerThatIgnoresTheBodyDoesNotWaitForIt(t *testing.T) {
	t.Parallel()
	eachEnd(t, func(t *testing.T, local *lockmw.Local, _ error, serve func(http.Handler) *webtest.Site) {
		wrote := make(chan error, 1)
		site := serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, err := w.Write(make([]byte, size))
			wrote <- err
		}))
		if a := site.Do(t, http.MethodPost, "/", stalled(t, "begin")); len(a.Body) != size {
			t.Errorf("the client got %d bytes", len(a.Body))
		}
		if err := usertest.Receive(t, "the handler writes", wrote); err != nil {
			t.Error(err)
		}
		usertest.Eventually(t, "the lock is free", patience, func() bool { return usertest.IsFree(local, "user:42") })
	})
}

// Only a client that is slow is cut off, and only the response to this request.
func TestAHandlerThatOutlivesItsContextAnswersAQuickClient(t *testing.T) {
	t.Parallel()
	eachEnd(t, func(t *testing.T, _ *lockmw.Local, _ error, serve func(http.Handler) *webtest.Site) {
		pauses := make(chan time.Duration, 1) // only the first write is followed by one
		pauses <- slowclient.LastWrite + 100*time.Millisecond
		close(pauses)
		site := serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(w, r.Body)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			for range 2 {
				if _, err := w.Write(make([]byte, size)); err != nil {
					t.Errorf("a write: %v", err)
				}
				time.Sleep(<-pauses)
			}
		}))
		reused := false
		trace := &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }}
		for range 2 {
			resp, err := site.Send(httptrace.WithClientTrace(t.Context(), trace), http.MethodPost, "/", bufio.NewReader(io.LimitReader(endless{}, 10)))
			if err != nil {
				t.Fatal(err)
			}
			n, err := io.Copy(io.Discard, resp.Body)
			if n != 2*size+10 || err != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("status %d, %d bytes: %v", resp.StatusCode, n, err)
			}
			_ = resp.Body.Close()
		}
		if !reused {
			t.Error("the connection was not used again")
		}
	})
}

func TestAHandlerThatHasUnlockedMayTakeItsTime(t *testing.T) {
	t.Parallel()
	for protocol, edit := range webtest.Protocols {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			unlocked, ends := make(chan struct{}), make(chan struct{})
			site := webtest.NewSite(t, httpmw.WithLock(lockmw.NewLocal(), user42)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				buf := make([]byte, 5)
				_, err := io.ReadFull(r.Body, buf)
				hold, _ := lockmw.FromContext(r.Context())
				err = errors.Join(err, hold.Unlock())
				close(unlocked)
				<-ends
				if b, failed := io.ReadAll(r.Body); err != nil || failed != nil || string(b) != " and end" {
					t.Errorf("%q: %v, %v", b, err, failed)
				}
			})), edit)
			body, w := io.Pipe()
			go func() {
				_, _ = io.WriteString(w, "begin")
				<-unlocked
				close(ends)
				_, _ = io.WriteString(w, " and end")
				_ = w.Close()
			}()
			if a := site.Do(t, http.MethodPost, "/", body); a.Status != http.StatusOK {
				t.Errorf("status %d", a.Status)
			}
		})
	}
}

func TestAHijackedConnectionBelongsToTheHandler(t *testing.T) {
	t.Parallel()
	local := lockmw.NewLocal()
	site := webtest.NewSite(t, httpmw.WithLock(local, user42)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		local.Expire("user:42")
		<-r.Context().Done()
		own := conn.SetWriteDeadline(time.Unix(1, 0))
		_, refused := w.Write([]byte("too late"))
		_, late := conn.Write([]byte("HTTP/1.1 200 OK\r\n\r\n"))
		if own != nil || !errors.Is(refused, http.ErrHijacked) || !errors.Is(late, os.ErrDeadlineExceeded) {
			t.Errorf("%v; the response: %v; the handler's own deadline: %v", own, refused, late)
		}
		_ = conn.SetWriteDeadline(time.Time{})
		_, _ = buf.WriteString("HTTP/1.1 201 Created\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		if err := buf.Flush(); err != nil {
			t.Error(err)
		}
	})))
	site.Complaint = "hijacked"
	if a := site.Get(t, "/"); a.Status != http.StatusCreated {
		t.Errorf("status %d", a.Status)
	}
}
