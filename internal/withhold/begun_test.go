package withhold_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/lockmw/go/internal/test/webtest"
)

// A response that has begun belongs to the handler, even if its work becomes void.
func TestAResponseThatHasBegunIsLeftAlone(t *testing.T) {
	for _, tt := range []struct {
		name   string
		begin  func(http.ResponseWriter)
		status int // 0: the response has not begun
		body   string
	}{
		{"a status", func(w http.ResponseWriter) { w.WriteHeader(http.StatusAccepted) }, 202, ""},
		{"a body", func(w http.ResponseWriter) { w.Write([]byte("ok")) }, 200, "ok"},
		{"a string", func(w http.ResponseWriter) { io.WriteString(w, "ok") }, 200, "ok"},
		{"a copy", func(w http.ResponseWriter) { io.Copy(w, io.LimitReader(strings.NewReader("ok"), 2)) }, 200, "ok"},
		{"nothing to copy", func(w http.ResponseWriter) { io.Copy(w, io.LimitReader(strings.NewReader(""), 2)) }, 0, ""},
		{"a copy that fails", func(w http.ResponseWriter) { io.Copy(w, iotest.ErrReader(errVoid)) }, 0, ""},
		{"an empty body", func(w http.ResponseWriter) { w.Write(nil) }, 200, ""},
		{"a flush", func(w http.ResponseWriter) { w.(http.Flusher).Flush() }, 200, ""},
		{"a flush by the controller", func(w http.ResponseWriter) { http.NewResponseController(w).Flush() }, 200, ""},
		{"only a hint", func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) }, 0, ""},
		{"only a header", func(w http.ResponseWriter) { w.Header().Set("X-A", "b") }, 0, ""},
		{"a connection taken over", func(w http.ResponseWriter) {
			takeOver(t, w, "202 Accepted\r\nContent-Length: 2\r\n\r\nok")
		}, 202, "ok"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onEachServer(t, func(t *testing.T, on string, serve func(http.Handler) *webtest.Site) {
				if on == "HTTP2" && tt.name == "a connection taken over" {
					t.Skip("other responses share the connection")
				}
				if on == "behind a recorder" && tt.name == "a flush" {
					t.Skip("the writer is not a Flusher")
				}
				site := serve(guard(func(w http.ResponseWriter, _ *http.Request, void func()) {
					tt.begin(w)
					void()
				}))
				a := site.Request(t, http.MethodPost, "/")
				if tt.status == 0 {
					wantVoid(t, a)
				} else {
					wantAnswer(t, a, tt.status, tt.body)
				}
			})
		})
	}
}

// A ResponseController finds methods that a writer hides from type assertions.
func TestABeginningThroughHiddenMethods(t *testing.T) {
	type wraps interface{ Unwrap() http.ResponseWriter }
	flusher := func(w http.ResponseWriter) http.ResponseWriter {
		return struct {
			http.ResponseWriter
			wraps
			http.Flusher
		}{w, &webtest.Recorder{ResponseWriter: w}, w.(http.Flusher)}
	}
	hijacker := func(w http.ResponseWriter) http.ResponseWriter {
		return struct {
			http.ResponseWriter
			wraps
			http.Hijacker
		}{w, &webtest.Recorder{ResponseWriter: w}, w.(http.Hijacker)}
	}
	both := func(w http.ResponseWriter) http.ResponseWriter { return &webtest.Recorder{ResponseWriter: w} }
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
			guarded := guard(func(w http.ResponseWriter, r *http.Request, void func()) {
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
				void()
			})
			site := webtest.NewSite(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { guarded.ServeHTTP(tt.hiding(w), r) }))
			for _, path := range []string{"/flush", "/hijack"} {
				wantAnswer(t, site.Get(t, path), http.StatusOK, "")
			}
		})
	}
	t.Run("nothing", func(t *testing.T) { // the writer cannot flush at all
		type plain struct{ http.ResponseWriter }
		rec := httptest.NewRecorder()
		guard(func(w http.ResponseWriter, _ *http.Request, void func()) {
			if err := http.NewResponseController(w).Flush(); !errors.Is(err, http.ErrNotSupported) {
				t.Errorf("flush: %v", err)
			}
			void()
		}).ServeHTTP(both(plain{rec}), httptest.NewRequest(http.MethodPost, "/", nil))
		wantVoid(t, webtest.Answer{Status: rec.Code, Header: rec.Header(), Body: rec.Body.String()})
	})
}
