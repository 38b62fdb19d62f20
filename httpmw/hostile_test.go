package httpmw_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/internal/test/webtest"
	"github.com/lockmw/go/lockmw"
)

// raw sends bytes as they are, and returns what comes back.
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

// Of what a request may say instead of an ID. Some of it net/http or the router refuses before the
// middleware sees it; what gets through has a lock of its own.
func TestHostileRequestsHaveTheirOwnLockOrNone(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 64<<10)
	const refusedBefore = "" // not by the middleware
	type expectation struct {
		status int
		key    string // under which it was handled; or the type of the problem
	}
	handled := func(key string) expectation { return expectation{http.StatusCreated, key} }
	invalid := expectation{http.StatusBadRequest, "lock-invalid-key"}
	path := func(value string) string { return "POST /items/" + value + "/x HTTP/1.1\r\nHost: h\r\n" }
	header := func(value string) string {
		return "POST /header HTTP/1.1\r\nHost: h\r\nIdempotency-Key: " + value + "\r\n"
	}
	mux := func(value string) string { return "POST /mux/" + value + "/x HTTP/1.1\r\nHost: h\r\n" }
	type row struct {
		request string
		want    expectation
	}
	rows := map[string]row{
		"path: as long as a key may be":   {path(strings.Repeat("a", 1024-len("item:"))), handled("item:" + strings.Repeat("a", 1024-len("item:")))},
		"path: a byte longer":             {path(strings.Repeat("a", 1025-len("item:"))), invalid},
		"path: longer once it is escaped": {path(strings.Repeat("%25", 400)), invalid},
		"path: 64 KiB":                    {path(long), invalid},
		"path: NUL":                       {path("%00"), handled("item:\x00")},
		"path: a NUL byte":                {path("\x00"), expectation{400, refusedBefore}},
		"path: CRLF":                      {path("a%0d%0aX-A:%20b"), handled("item:a\r\nX-A%3A b")},
		"path: invalid UTF-8":             {path("%ff%fe"), handled("item:\xff\xfe")},
		"path: invalid UTF-8, bytes":      {path("\xff\xfe"), handled("item:\xff\xfe")},
		"path: overlong UTF-8 of a slash": {path("%c0%af"), handled("item:\xc0\xaf")},
		"path: an encoded slash":          {path("a%2Fb"), handled("item:a/b")},
		"path: two of them":               {path("..%2f..%2fetc"), handled("item:../../etc")},
		"path: encoded twice":             {path("a%252Fb"), handled("item:a%252Fb")},
		"path: dots":                      {path(".."), handled("item:..")},
		"path: encoded dots":              {path("%2e%2e"), handled("item:..")},
		"path: empty":                     {path(""), invalid},
		"path: a separator":               {path("a:b"), handled("item:a%3Ab")},
		"path: a hash tag":                {path("%7Bother%7D"), handled("item:{other}")},
		"path: bad escapes":               {path("%zz"), expectation{400, refusedBefore}},
		"path: half an escape":            {path("%"), expectation{400, refusedBefore}},

		"mux: 64 KiB":           {mux(long), invalid},
		"mux: NUL":              {mux("%00"), handled("item:\x00")},
		"mux: CRLF":             {mux("a%0d%0ab"), handled("item:a\r\nb")},
		"mux: invalid UTF-8":    {mux("%ff"), handled("item:\xff")},
		"mux: an encoded slash": {mux("a%2Fb"), handled("item:a/b")},
		"mux: dots":             {mux(".."), expectation{307, refusedBefore}},
		"mux: empty":            {mux(""), expectation{307, refusedBefore}},

		"header: 64 KiB":           {header(long), invalid},
		"header: NUL":              {header("a\x00b"), expectation{400, refusedBefore}},
		"header: CRLF":             {header("a\r\nX-A: b"), handled("key:a")},
		"header: CR":               {header("a\rb"), expectation{400, refusedBefore}},
		"header: folded":           {header("a\r\n b"), handled("key:a b")},
		"header: invalid UTF-8":    {header("\xff"), handled("key:\xff")},
		"header: an encoded slash": {header("a%2Fb"), handled("key:a%252Fb")},
		"header: dots":             {header("../.."), handled("key:../..")},
		"header: empty":            {header(""), invalid},
		"header: blank":            {header(" \t "), invalid},
		"header: twice":            {header("a\r\nIdempotency-Key: b"), handled("key:a")},
	}
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		locks, other := usertest.Client(t, s), usertest.Client(t, s)
		var keys []string
		l := recording(locks, &keys)
		r := chi.NewRouter()
		r.With(httpmw.WithLock(l, httpmw.By("item", httpmw.URLParam("itemID")))).Post("/items/{itemID}/x", ok)
		r.With(httpmw.WithLock(l, httpmw.By("key", httpmw.Header("Idempotency-Key")))).Post("/header", ok)
		byMux := http.NewServeMux()
		byMux.Handle("POST /mux/{itemID}/x", httpmw.WithLock(l, httpmw.By("item", httpmw.PathValue("itemID")))(ok))
		site := webtest.NewSite(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if strings.HasPrefix(req.URL.Path, "/mux") {
				byMux.ServeHTTP(w, req)
				return
			}
			r.ServeHTTP(w, req)
		}))
		for name, tt := range rows {
			t.Run(name, func(t *testing.T) {
				keys = nil
				request := tt.request + "Content-Length: 0\r\nConnection: close\r\n\r\n"
				a := raw(t, site, request)
				if a.Status != tt.want.status {
					t.Fatalf("status %d, body %.100q; want %d", a.Status, a.Body, tt.want.status)
				}
				switch {
				case tt.want == invalid:
					wantProblem(t, a, 400, "lock-invalid-key", false)
				case tt.want.key == refusedBefore:
					if len(keys) > 0 {
						t.Errorf("locked %.100q", keys)
					}
				default:
					if !slices.Equal(keys, []string{tt.want.key}) {
						t.Fatalf("locked %.100q, want %.100q", keys, tt.want.key)
					}
					release := usertest.Occupy(t, other, tt.want.key)
					wantProblem(t, raw(t, site, request), 409, "lock-busy", true)
					release()
					usertest.Eventually(t, "the lock is free", patience, func() bool { return usertest.IsFree(other, tt.want.key) })
				}
			})
		}
	})
}

// Not all that is in a request's header came over the wire as it is.
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
