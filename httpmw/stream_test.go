package httpmw_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-chi/chi/v5/middleware"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/internal/test/webtest"
	"github.com/lockmw/go/lockmw"
)

// Behind nothing the middleware gets the writers of net/http; behind other middleware it gets their writers.
var writers = map[string]func(http.Handler) http.Handler{
	"directly":        func(h http.Handler) http.Handler { return h },
	"behind a log":    func(h http.Handler) http.Handler { logged, _ := webtest.AccessLog(h); return logged },
	"behind Compress": middleware.Compress(5),
	"behind a lock": func(h http.Handler) http.Handler {
		return httpmw.WithLock(lockmw.NewLocal(), secretUser, lockmw.WithWait(patience))(h)
	},
}

func eachWriter(t *testing.T, test func(t *testing.T, around func(http.Handler) http.Handler, protocol func(*httptest.Server))) {
	t.Parallel()
	for name, around := range writers {
		for protocol, edit := range webtest.Protocols {
			t.Run(name+" "+protocol, func(t *testing.T) { test(t, around, edit) })
		}
	}
}

func TestEventsAreStreamedUnderTheLock(t *testing.T) {
	for name, flush := range map[string]func(http.ResponseWriter) error{
		"Flusher":            func(w http.ResponseWriter) error { w.(http.Flusher).Flush(); return nil },
		"ResponseController": func(w http.ResponseWriter) error { return http.NewResponseController(w).Flush() },
	} {
		t.Run(name, func(t *testing.T) {
			eachWriter(t, func(t *testing.T, around func(http.Handler) http.Handler, protocol func(*httptest.Server)) {
				local := lockmw.NewLocal()
				next := make(chan struct{})
				site := webtest.NewSite(t, around(httpmw.WithLock(local, user42)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					for i := range 3 {
						if _, err := fmt.Fprintf(w, "data: %d\n\n", i); err != nil {
							t.Error(err)
						}
						if err := flush(w); err != nil {
							t.Error(err)
						}
						<-next
					}
				}))), protocol)
				t.Cleanup(func() { close(next) })
				resp, err := site.Send(t.Context(), http.MethodGet, "/", nil)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				lines := bufio.NewScanner(resp.Body)
				for i := range 3 {
					if want := fmt.Sprintf("data: %d", i); !lines.Scan() || lines.Text() != want {
						t.Fatalf("%q, want %q: %v", lines.Text(), want, lines.Err())
					}
					if usertest.IsFree(local, "user:42") {
						t.Error("the lock is free while the handler streams")
					}
					lines.Scan() // the empty line
					next <- struct{}{}
				}
				if lines.Scan() || lines.Err() != nil {
					t.Errorf("more than was sent: %q, %v", lines.Text(), lines.Err())
				}
			})
		})
	}
}

func TestAResponseMayBeCompleteBeforeTheLockIsReleased(t *testing.T) {
	t.Parallel()
	for protocol, edit := range webtest.Protocols {
		t.Run(protocol, func(t *testing.T) {
			rest := newGate(t)
			complete := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "2")
				_, _ = io.WriteString(w, "ok")
				_ = http.NewResponseController(w).Flush()
				rest.entered <- r
				<-rest.opened
			})
			local, mux := lockmw.NewLocal(), http.NewServeMux()
			mux.Handle("/", httpmw.WithLock(local, secretUser)(complete))
			mux.Handle("/patient", httpmw.WithLock(local, secretUser, lockmw.WithWait(patience))(ok))
			site := webtest.NewSite(t, mux, edit)
			t.Cleanup(rest.Open)
			// On the same connection the server reads the next request only after this one has ended.
			resp, err := site.Send(t.Context(), http.MethodPost, "/", nil, "Connection", "close")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body := make([]byte, 2)
			if _, err := io.ReadFull(resp.Body, body); err != nil || string(body) != "ok" {
				t.Fatalf("%q, %v", body, err)
			}
			wantProblem(t, site.Request(t, http.MethodPost, "/"), 409, "lock-busy", true)
			patient := make(chan webtest.Answer, 1)
			go func() { patient <- site.Request(t, http.MethodPost, "/patient") }()
			rest.Open()
			if a := usertest.Receive(t, "the patient request", patient); a.Status != http.StatusCreated {
				t.Errorf("status %d: %s", a.Status, a.Body)
			}
		})
	}
}

func TestFilesAreServedUnderTheLock(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
	path := filepath.Join(t.TempDir(), "file.bin")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	h := httpmw.WithLock(lockmw.NewLocal(), user42, lockmw.WithWait(patience))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, path)
	}))
	eachWriter(t, func(t *testing.T, around func(http.Handler) http.Handler, protocol func(*httptest.Server)) {
		site := webtest.NewSite(t, around(h), protocol)
		if a := site.Get(t, "/"); a.Status != http.StatusOK || a.Body != string(content) {
			t.Errorf("status %d, %d bytes, want %d", a.Status, len(a.Body), len(content))
		}
		if a := site.Get(t, "/", "Range", "bytes=100-199"); a.Status != http.StatusPartialContent || a.Body != string(content[100:200]) {
			t.Errorf("a range: status %d, %d bytes", a.Status, len(a.Body))
		}
	})
}

func TestAConnectionIsUpgradedUnderTheLock(t *testing.T) {
	for name, around := range writers {
		t.Run(name, func(t *testing.T) {
			local := lockmw.NewLocal()
			returned := make(chan struct{})
			site := webtest.NewSite(t, around(httpmw.WithLock(local, user42)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(returned)
				conn, buf, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
				for {
					line, err := buf.ReadString('\n')
					if err != nil {
						return
					}
					if line == "lose\n" {
						local.Expire("user:42")
						<-r.Context().Done()
						line = "lost\n"
					}
					_, _ = io.WriteString(conn, line)
				}
			}))))
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", site.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			answer := bufio.NewReader(conn)
			resp, err := http.ReadResponse(answer, nil)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("status %d", resp.StatusCode)
			}
			_, _ = io.WriteString(conn, "hello\n")
			if line, err := answer.ReadString('\n'); line != "hello\n" || err != nil {
				t.Errorf("%q, %v", line, err)
			}
			if usertest.IsFree(local, "user:42") {
				t.Error("the lock is free while the connection is used")
			}
			_, _ = io.WriteString(conn, "lose\n")
			if line, err := answer.ReadString('\n'); line != "lost\n" || err != nil {
				t.Errorf("%q, %v", line, err)
			}
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Error(err)
			}
			if rest, err := io.ReadAll(answer); len(rest) > 0 || err != nil {
				t.Errorf("written to a connection that was taken over: %q, %v", rest, err)
			}
			usertest.Receive(t, "the handler returns", returned)
		})
	}
}
