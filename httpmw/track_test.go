package httpmw_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/lockmw"
)

// A response that has begun is the handler's, whatever happens to the lock afterwards.
func TestALostLockLeavesAResponseThatHasBegunAlone(t *testing.T) {
	captureLog(t)
	for _, tt := range []struct {
		name   string
		begin  func(http.ResponseWriter)
		status int
		body   string
	}{
		{"a status", func(w http.ResponseWriter) { w.WriteHeader(http.StatusAccepted) }, 202, ""},
		{"a body", func(w http.ResponseWriter) { w.Write([]byte("ok")) }, 200, "ok"},
		{"a string", func(w http.ResponseWriter) { io.WriteString(w, "ok") }, 200, "ok"},
		{"a copy", func(w http.ResponseWriter) { io.Copy(w, io.LimitReader(strings.NewReader("ok"), 2)) }, 200, "ok"},
		{"nothing to copy", func(w http.ResponseWriter) { io.Copy(w, io.LimitReader(strings.NewReader(""), 2)) }, 500, "lock-lost"},
		{"a copy that fails", func(w http.ResponseWriter) { io.Copy(w, iotest.ErrReader(lockmw.ErrLost)) }, 500, "lock-lost"},
		{"an empty body", func(w http.ResponseWriter) { w.Write(nil) }, 200, ""},
		{"a flush", func(w http.ResponseWriter) { w.(http.Flusher).Flush() }, 200, ""},
		{"a flush by the controller", func(w http.ResponseWriter) { http.NewResponseController(w).Flush() }, 200, ""},
		{"only a hint", func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) }, 500, "lock-lost"},
		{"only a header", func(w http.ResponseWriter) { w.Header().Set("X-A", "b") }, 500, "lock-lost"},
		{"a connection taken over", func(w http.ResponseWriter) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, err = io.WriteString(conn, "HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\nok")
			if err := errors.Join(err, conn.Close()); err != nil {
				t.Error(err)
			}
		}, 202, "ok"},
	} {
		for name, server := range lossServers {
			if name == "HTTP2" && tt.name == "a connection taken over" || name == "behind a recorder" && tt.name == "a flush" {
				continue
			}
			t.Run(tt.name+" "+name, func(t *testing.T) {
				local := lockmw.NewLocal()
				site := newSite(t, server.around(httpmw.WithLock(local, user42)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					tt.begin(w)
					local.Expire("user:42")
					<-r.Context().Done()
				}))), server.protocol)
				a := site.ask(t, http.MethodPost, "/")
				if a.status != tt.status || !strings.Contains(a.body, tt.body) || tt.body == "" && a.body != "" {
					t.Errorf("status %d, body %q; want %d, %q", a.status, a.body, tt.status, tt.body)
				}
			})
		}
	}
}

// A stranger is a writer of some other middleware, with methods that no writer of net/http has just so.
type stranger struct {
	http.ResponseWriter
	io.StringWriter
	io.ReaderFrom
	http.Flusher
	http.Hijacker
	flushErrorer
}

type flushErrorer interface{ FlushError() error }

func behindStranger(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(stranger{w, w.(io.StringWriter), w.(io.ReaderFrom), w.(http.Flusher), w.(http.Hijacker), w.(flushErrorer)}, r)
	})
}

// A recorder is the usual writer of an access log: it leaves all but the status to what it wraps.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) WriteHeader(code int) {
	r.status = code
	r.ResponseWriter.WriteHeader(code)
}

func behindRecorder(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&recorder{ResponseWriter: w}, r)
	})
}

// What a writer hides from type assertions, a ResponseController finds.
func TestABeginningThatTheWriterHides(t *testing.T) {
	captureLog(t)
	type wraps interface{ Unwrap() http.ResponseWriter }
	flusher := func(w http.ResponseWriter) http.ResponseWriter {
		return struct {
			http.ResponseWriter
			wraps
			http.Flusher
		}{w, &recorder{ResponseWriter: w}, w.(http.Flusher)}
	}
	hijacker := func(w http.ResponseWriter) http.ResponseWriter {
		return struct {
			http.ResponseWriter
			wraps
			http.Hijacker
		}{w, &recorder{ResponseWriter: w}, w.(http.Hijacker)}
	}
	both := func(w http.ResponseWriter) http.ResponseWriter { return &recorder{ResponseWriter: w} }
	for name, tt := range map[string]struct {
		hiding           func(http.ResponseWriter) http.ResponseWriter
		flushes, hijacks bool
	}{
		"the flush":            {hijacker, false, true},
		"the hijack":           {flusher, true, false},
		"both":                 {both, false, false},
		"both, under a second": {func(w http.ResponseWriter) http.ResponseWriter { return both(both(w)) }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			local := lockmw.NewLocal()
			locked := httpmw.WithLock(local, user42)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, flushes := w.(http.Flusher); flushes != tt.flushes {
					t.Errorf("a Flusher: %t", flushes)
				}
				if _, hijacks := w.(http.Hijacker); hijacks != tt.hijacks {
					t.Errorf("a Hijacker: %t", hijacks)
				}
				c := http.NewResponseController(w)
				if err := c.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
					t.Error(err)
				}
				if r.URL.Path == "/flush" {
					if err := c.Flush(); err != nil {
						t.Error(err)
					}
				} else {
					conn, _, err := c.Hijack()
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
					_ = conn.Close()
				}
				lose(local, r)
			}))
			site := newSite(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { locked.ServeHTTP(tt.hiding(w), r) }))
			for _, path := range []string{"/flush", "/hijack"} {
				if a := site.get(t, path); a.status != 200 || a.body != "" {
					t.Errorf("%s: status %d, body %q", path, a.status, a.body)
				}
			}
		})
	}
	t.Run("nothing", func(t *testing.T) { // the writer cannot flush at all
		type plain struct{ http.ResponseWriter }
		local := lockmw.NewLocal()
		rec := httptest.NewRecorder()
		httpmw.WithLock(local, user42)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := http.NewResponseController(w).Flush(); !errors.Is(err, http.ErrNotSupported) {
				t.Errorf("flush: %v", err)
			}
			lose(local, r)
		})).ServeHTTP(both(plain{rec}), httptest.NewRequest(http.MethodPost, "/", nil))
		if p := readProblem(t, rec); p.Type != "lock-lost" {
			t.Errorf("got %+v", p)
		}
	})
}

func TestTheResponseWriterKeepsItsMethods(t *testing.T) {
	type bare struct{ http.ResponseWriter }
	check := func(w http.ResponseWriter, want bool) {
		_, flusher := w.(http.Flusher)
		_, hijacker := w.(http.Hijacker)
		_, readerFrom := w.(io.ReaderFrom)
		_, stringWriter := w.(io.StringWriter)
		if flusher != want || hijacker != want || readerFrom != want || stringWriter != want {
			t.Errorf("Flusher %t, Hijacker %t, ReaderFrom %t, StringWriter %t; want %t", flusher, hijacker, readerFrom, stringWriter, want)
		}
	}
	mw := httpmw.WithLock(lockmw.NewLocal(), user42)
	full := mw(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { check(w, true) }))
	plain := mw(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { check(w, false) }))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		full.ServeHTTP(w, r)
		plain.ServeHTTP(bare{w}, r)
	}))
	defer srv.Close()
	resp, err := srv.Client().Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}
