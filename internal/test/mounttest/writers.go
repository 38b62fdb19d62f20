package mounttest

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

	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// raw sends a request for the raw handler to a server and returns the response's status and reader.
func (f *Framework) raw(t *testing.T, s *Shop, body io.Reader) (int, *bufio.Reader) {
	t.Helper()
	server := httptest.NewServer(f.Serve(s))
	t.Cleanup(server.Close)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/users/42/raw", body)
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

func stream(f *Framework, t *testing.T) {
	local := lockmw.NewLocal()
	read := make(chan struct{})
	status, body := f.raw(t, &Shop{Mount: f.byUser(local), Raw: func(w http.ResponseWriter, r *http.Request) {
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
	}}, nil)
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
}

// begins are the ways in which a handler begins a response. Each returns what the handler learns of a loss.
var begins = map[string]func(http.ResponseWriter) error{
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
		if w, ok := w.(interface{ WriteHeaderNow() }); ok {
			w.WriteHeaderNow()
		}
		return lockmw.ErrLost
	},
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// After the loss, every attempt to begin a response fails, and the client gets status 500.
func noResponse(f *Framework, t *testing.T) {
	for name, begin := range begins {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			local := lockmw.NewLocal()
			status, body := f.raw(t, &Shop{Mount: f.byUser(local), Raw: func(w http.ResponseWriter, _ *http.Request) {
				local.Expire("user:42")
				if err := begin(w); !errors.Is(err, lockmw.ErrLost) {
					t.Errorf("got %v, want the loss", err)
				}
			}}, nil)
			if text, err := io.ReadAll(body); status != http.StatusInternalServerError || err != nil {
				t.Errorf("%d %q %v", status, text, err)
			}
		})
	}
}

// A client that does not send its body does not extend the hold beyond the handler.
func slowClient(f *Framework, t *testing.T) {
	read := make(chan error, 1)
	body, w := io.Pipe()
	defer w.Close()
	status, _ := f.raw(t, &Shop{
		Mount: f.byUser(lockmw.NewLocal(), lockmw.WithMaxHold(maxHold)),
		Raw: func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			read <- err
			http.Error(w, "no body", http.StatusTeapot)
		},
	}, body)
	if err := usertest.Receive(t, "the handler reads", read); !errors.Is(err, lockmw.ErrLost) || status != http.StatusTeapot {
		t.Errorf("status %d; the body ends with %v", status, err)
	}
}

func hijack(f *Framework, t *testing.T) {
	local := lockmw.NewLocal()
	status, body := f.raw(t, &Shop{Mount: f.byUser(local), Raw: func(w http.ResponseWriter, _ *http.Request) {
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
	}}, nil)
	if text, err := io.ReadAll(body); status != http.StatusOK || string(text) != "hi" || err != nil {
		t.Errorf("%d %q %v", status, text, err)
	}
}
