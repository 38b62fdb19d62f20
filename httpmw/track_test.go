package httpmw_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

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
		for name, server := range map[string]struct {
			around   func(http.Handler) http.Handler
			protocol func(*httptest.Server)
		}{
			"HTTP1":                   {writers["directly"], protocols["HTTP1"]},
			"HTTP2":                   {writers["directly"], protocols["HTTP2"]},
			"behind other middleware": {behindStranger, protocols["HTTP1"]},
		} {
			if name == "HTTP2" && tt.name == "a connection taken over" {
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
