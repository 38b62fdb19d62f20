package httpmw_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/internal/test/webtest"
	"github.com/lockmw/go/lockmw"
)

// raw sends text unchanged and returns the answer.
func raw(t *testing.T, s *webtest.Site, text string) webtest.Answer {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, text) }() // the server may answer before it has read all
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%.60q: %v", text, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%.60q: %v", text, err)
	}
	return webtest.Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(body)}
}

// A header field may contain bytes that cannot arrive over the wire.
func TestAHeaderThatOtherMiddlewareHasSet(t *testing.T) {
	t.Parallel()
	locks := usertest.Client(t, redistest.Mini(t))
	h := httpmw.WithLock(locks, httpmw.By("key", httpmw.Header("Idempotency-Key")))
	for value, want := range map[string]string{"a\x00b": "key:a\x00b", "a\r\nb": "key:a\r\nb", "\x00": "key:\x00", "\xc3\x28": "key:\xc3\x28", "": ""} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header["Idempotency-Key"] = []string{value}
		rec := serve(h(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := lockmw.Held(r.Context(), want); err != nil {
				t.Error(err)
			}
			_, _ = fmt.Fprint(w, "handled")
		})), r)
		if handled := rec.Body.String() == "handled"; handled != (want != "") {
			t.Errorf("%q: status %d, %s", value, rec.Code, rec.Body)
		}
	}
}
