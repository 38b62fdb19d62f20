package httpmw_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
		{"a copy", func(w http.ResponseWriter) { io.Copy(w, strings.NewReader("ok")) }, 200, "ok"},
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
		t.Run(tt.name, func(t *testing.T) {
			local := lockmw.NewLocal()
			srv := httptest.NewServer(httpmw.WithLock(local, user42)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				tt.begin(w)
				local.Expire("user:42")
				<-r.Context().Done()
			})))
			defer srv.Close()
			resp, err := srv.Client().Post(srv.URL, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != tt.status || !strings.Contains(string(body), tt.body) || tt.body == "" && len(body) > 0 {
				t.Errorf("status %d, body %q; want %d, %q", resp.StatusCode, body, tt.status, tt.body)
			}
		})
	}
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
