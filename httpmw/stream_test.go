package httpmw_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5/middleware"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// Behind nothing the middleware gets the writers of net/http, behind other middleware theirs.
var writers = map[string]func(http.Handler) http.Handler{
	"directly":        func(h http.Handler) http.Handler { return h },
	"behind a log":    func(h http.Handler) http.Handler { logged, _ := accessLog(h); return logged },
	"behind Compress": middleware.Compress(5),
	"behind a lock": func(h http.Handler) http.Handler {
		return httpmw.WithLock(lockmw.NewLocal(), secretUser, lockmw.WithWait(patience))(h)
	},
}

func eachWriter(t *testing.T, test func(t *testing.T, around func(http.Handler) http.Handler, protocol func(*httptest.Server))) {
	t.Parallel()
	for name, around := range writers {
		for protocol, edit := range protocols {
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
				site := newSite(t, around(httpmw.WithLock(local, user42)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
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
				resp, err := site.send(t.Context(), http.MethodGet, "/", nil)
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
					lines.Scan() // the empty one
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
	for protocol, edit := range protocols {
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
			site := newSite(t, mux, edit)
			t.Cleanup(rest.Open)
			// On the same connection the server would not read the next request before the end of this.
			resp, err := site.send(t.Context(), http.MethodPost, "/", nil, "Connection", "close")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body := make([]byte, 2)
			if _, err := io.ReadFull(resp.Body, body); err != nil || string(body) != "ok" {
				t.Fatalf("%q, %v", body, err)
			}
			site.ask(t, http.MethodPost, "/").wantProblem(t, 409, "lock-busy", true)
			patient := make(chan answer, 1)
			go func() { patient <- site.ask(t, http.MethodPost, "/patient") }()
			rest.Open()
			if a := usertest.Receive(t, "the patient request", patient); a.status != http.StatusCreated {
				t.Errorf("status %d: %s", a.status, a.body)
			}
		})
	}
}

func TestTheResponseControllerWorksUnderTheLock(t *testing.T) {
	eachWriter(t, func(t *testing.T, around func(http.Handler) http.Handler, protocol func(*httptest.Server)) {
		site := newSite(t, around(httpmw.WithLock(lockmw.NewLocal(), user42)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c := http.NewResponseController(w)
			deadline := time.Now().Add(time.Minute)
			if err := errors.Join(c.EnableFullDuplex(), c.SetReadDeadline(deadline), c.SetWriteDeadline(deadline)); err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(w, "ready\n")
			if err := c.Flush(); err != nil {
				t.Error(err)
			}
			_, err := io.Copy(w, r.Body) // an echo of what the client has not sent yet
			if err = errors.Join(err, c.Flush()); err != nil {
				t.Error(err)
			}
			_ = c.SetWriteDeadline(time.Now().Add(-time.Second))
			_, err = w.Write(make([]byte, 1<<16))
			if err = errors.Join(err, c.Flush()); err == nil {
				t.Error("written after the deadline")
			}
		}))), protocol)
		body, sent := io.Pipe()
		t.Cleanup(func() { _ = sent.Close() })
		resp, err := site.send(t.Context(), http.MethodPost, "/", body)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer := bufio.NewReader(resp.Body)
		if line, err := answer.ReadString('\n'); line != "ready\n" || err != nil {
			t.Fatalf("%q, %v", line, err)
		}
		go func() {
			_, _ = io.WriteString(sent, "hello\n")
			_ = sent.Close()
		}()
		if rest, err := io.ReadAll(answer); err == nil || !strings.HasPrefix(string(rest), "hello\n") {
			t.Errorf("%.20q, %v; want the echo and, because of the deadline, an error", rest, err)
		}
	})
}

// A spy notes what its writer reads from.
type spy struct {
	http1Writer
	from io.Reader
}

func (s *spy) ReadFrom(src io.Reader) (int64, error) {
	s.from = src
	return s.http1Writer.ReadFrom(src)
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
	t.Run("the way to sendfile is open", func(t *testing.T) {
		w := &spy{http1Writer: http1Writer{httptest.NewRecorder()}}
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		limited, _ := w.from.(*io.LimitedReader)
		if limited == nil {
			t.Fatalf("read from a %T, want a LimitedReader", w.from)
		}
		if _, isFile := limited.R.(*os.File); !isFile || !bytes.Equal(w.Body.Bytes(), content) {
			t.Errorf("read %d bytes from a %T, want the file", w.Body.Len(), limited.R)
		}
	})
	t.Run("over the wire", func(t *testing.T) {
		eachWriter(t, func(t *testing.T, around func(http.Handler) http.Handler, protocol func(*httptest.Server)) {
			site := newSite(t, around(h), protocol)
			if a := site.get(t, "/"); a.status != http.StatusOK || a.body != string(content) {
				t.Errorf("status %d, %d bytes, want %d", a.status, len(a.body), len(content))
			}
			if a := site.get(t, "/", "Range", "bytes=100-199"); a.status != http.StatusPartialContent || a.body != string(content[100:200]) {
				t.Errorf("a range: status %d, %d bytes", a.status, len(a.body))
			}
		})
	})
}

func TestAConnectionIsUpgradedUnderTheLock(t *testing.T) {
	for name, around := range writers {
		t.Run(name, func(t *testing.T) {
			local := lockmw.NewLocal()
			returned := make(chan struct{})
			site := newSite(t, around(httpmw.WithLock(local, user42)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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

// The writers of net/http are known, so that there is no need to ask for each of their methods.
func TestTheWritersOfTheServerAreKnown(t *testing.T) {
	for protocol, want := range map[string]string{"HTTP1": "*httpmw.http1Writer", "HTTP2": "*httpmw.http2Writer"} {
		var own http.ResponseWriter
		locked := httpmw.WithLock(lockmw.NewLocal(), user42)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if got := fmt.Sprintf("%T", w); got != want {
				t.Errorf("%s: %s, want %s", r.Proto, got, want)
			}
			if inner, wraps := w.(interface{ Unwrap() http.ResponseWriter }); !wraps || inner.Unwrap() != own {
				t.Errorf("%s: the server's own writer cannot be reached", r.Proto)
			}
			if _, pushes := w.(http.Pusher); pushes != (r.ProtoMajor == 2) {
				t.Errorf("%s: a Pusher: %t", r.Proto, pushes)
			}
			if _, hijacks := w.(http.Hijacker); hijacks != (r.ProtoMajor == 1) {
				t.Errorf("%s: a Hijacker: %t", r.Proto, hijacks)
			}
		}))
		newSite(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			own = w
			locked.ServeHTTP(w, r)
		}), protocols[protocol]).get(t, "/")
	}
}
