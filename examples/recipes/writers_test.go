package recipes_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/lockmw/go/examples/recipes/ginlock"
	"github.com/lockmw/go/lockmw"
)

// rawRequest sends a request to a server with the handler and returns the response's status and reader.
func rawRequest(t *testing.T, h http.Handler, path string) (int, *bufio.Reader) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res.StatusCode, bufio.NewReader(res.Body)
}

func TestAStreamArrivesWhileTheLockIsHeldAndGoesOnAfterALoss(t *testing.T) {
	t.Parallel()
	eachFramework(t, func(t *testing.T, serving func(*shop) http.Handler) {
		local := lockmw.NewLocal()
		read := make(chan struct{})
		h := serving(&shop{lock: byUser(local), raw: func(w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			if err := control.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Errorf("a deadline of the connection: %v", err)
			}
			fmt.Fprintln(w, "one")
			w.(http.Flusher).Flush()
			<-read
			local.Expire("user:42")
			<-r.Context().Done()
			if _, err := fmt.Fprintln(w, "two"); err != nil {
				t.Errorf("a response that has begun: %v", err)
			}
			if err := control.Flush(); err != nil {
				t.Errorf("a flush of a response that has begun: %v", err)
			}
		}})
		status, body := rawRequest(t, h, "/users/42/raw")
		line, err := body.ReadString('\n')
		if status != http.StatusOK || line != "one\n" {
			t.Errorf("%d %q %v", status, line, err)
		}
		if _, _, err := local.TryLock(t.Context(), "user:42"); !errors.Is(err, lockmw.ErrBusy) {
			t.Errorf("in the middle of the stream the lock is not held: %v", err)
		}
		close(read)
		if rest, err := io.ReadAll(body); string(rest) != "two\n" || err != nil {
			t.Errorf("the rest: %q %v", rest, err)
		}
	})
}

// After the loss of the lock, every attempt to begin a response fails, and the client gets status 500.
func TestNoResponseBeginsAfterALoss(t *testing.T) {
	t.Parallel()
	begin := map[string]func(http.ResponseWriter) error{
		"write":       func(w http.ResponseWriter) error { _, err := w.Write([]byte("done")); return err },
		"WriteString": func(w http.ResponseWriter) error { _, err := io.WriteString(w, "done"); return err },
		"status":      func(w http.ResponseWriter) error { w.WriteHeader(http.StatusAccepted); return lockmw.ErrLost },
		"flush":       func(w http.ResponseWriter) error { w.(http.Flusher).Flush(); return lockmw.ErrLost },
		"copy": func(w http.ResponseWriter) error {
			_, err := io.Copy(w, &io.LimitedReader{R: zeros{}, N: 4096})
			return err
		},
		"hijack": func(w http.ResponseWriter) error {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
			return err
		},
		"gin's WriteHeaderNow": func(w http.ResponseWriter) error {
			if w, ok := w.(gin.ResponseWriter); ok {
				w.WriteHeader(http.StatusNoContent)
				w.WriteHeaderNow()
			}
			return lockmw.ErrLost
		},
	}
	for name, begin := range begin {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachFramework(t, func(t *testing.T, serving func(*shop) http.Handler) {
				local := lockmw.NewLocal()
				h := serving(&shop{lock: byUser(local), raw: func(w http.ResponseWriter, _ *http.Request) {
					local.Expire("user:42")
					if err := begin(w); !errors.Is(err, lockmw.ErrLost) {
						t.Errorf("got %v, want the loss", err)
					}
				}})
				status, body := rawRequest(t, h, "/users/42/raw")
				if text, err := io.ReadAll(body); status != http.StatusInternalServerError || err != nil {
					t.Errorf("%d %q %v", status, text, err)
				}
			})
		})
	}
}

// A client that does not send its body does not extend the hold beyond the handler.
func TestASlowClientDoesNotKeepTheLock(t *testing.T) {
	t.Parallel()
	eachFramework(t, func(t *testing.T, serving func(*shop) http.Handler) {
		read := make(chan error, 1)
		h := serving(&shop{lock: byUser(lockmw.NewLocal(), lockmw.WithMaxHold(300*time.Millisecond)), raw: func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			read <- err
			http.Error(w, "no body", http.StatusTeapot)
		}})
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		body, w := io.Pipe()
		defer w.Close()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/users/42/raw", body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := <-read; !errors.Is(err, lockmw.ErrLost) || resp.StatusCode != http.StatusTeapot {
			t.Errorf("status %d; the body ends with %v", resp.StatusCode, err)
		}
	})
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestAConnectionIsTakenOverUnderTheLock(t *testing.T) {
	t.Parallel()
	eachFramework(t, func(t *testing.T, serving func(*shop) http.Handler) {
		local := lockmw.NewLocal()
		h := serving(&shop{lock: byUser(local), raw: func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			if _, _, err := local.TryLock(context.Background(), "user:42"); !errors.Is(err, lockmw.ErrBusy) {
				t.Errorf("the lock is not held: %v", err)
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
		}})
		status, body := rawRequest(t, h, "/users/42/raw")
		if text, err := io.ReadAll(body); status != http.StatusOK || string(text) != "hi" || err != nil {
			t.Errorf("%d %q %v", status, text, err)
		}
	})
}

// gin's own streaming functions also use the lock's writer.
func TestGinStreamsEvents(t *testing.T) {
	t.Parallel()
	local := lockmw.NewLocal()
	e := gin.New()
	e.GET("/users/:userID/events", ginlock.Wrap(byUser(local)), func(c *gin.Context) {
		n := 0
		c.Stream(func(io.Writer) bool {
			n++
			c.SSEvent("n", n)
			return n < 3
		})
	})
	status, body := rawRequest(t, e, "/users/42/events")
	if text, err := io.ReadAll(body); status != http.StatusOK || string(text) != "event:n\ndata:1\n\nevent:n\ndata:2\n\nevent:n\ndata:3\n\n" || err != nil {
		t.Errorf("%d %q %v", status, text, err)
	}
}
