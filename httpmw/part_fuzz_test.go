package httpmw_test

import (
	"bufio"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// Any request that arrives over the wire is handled under the right key or refused with a problem. It causes no panic, and no key
// that other requests share by mistake.
func FuzzRequest(f *testing.F) {
	for _, target := range []string{
		"/items/42/x", "/items/%34%32/x", "/items/a%2Fb/x", "/items/%2541/x", "/items/100%25/x", "/items/a:b/x", "/items/%3A%3a/x", "/items//x",
		"/items/%00/x", "/items/%ff/x", "/items/../x", "/items/./x", "/items/%2e%2e/x", "/items/%/x", "/items/%zz/x", "/items/+/x?a=%", "//items/1/x",
		"*", "http://h/items/1/x", "/items/{itemID}/x", "/items/%7BitemID%7D/x", "/items/42/x/", "/items/%25%34%32/x", "/items/%2541A/%41AA/x",
		"/items/%2525/x/", "/items/%2525%41/x/", "/%69tems/%2525/x/", "/%69tems/%2525items/x/",
	} {
		f.Add("POST " + target + " HTTP/1.1\r\nHost: h\r\nIdempotency-Key: k\r\n\r\n")
	}
	for _, item := range []string{
		"\x00", "a%0d%0aX-A:%20b", "%ff%fe", "\xff\xfe", "%c0%af", "..%2f..%2fetc", "a%252Fb", "%7Bother%7D", "%", strings.Repeat("%25", 400),
		strings.Repeat("a", 1024-len("item::k")), strings.Repeat("a", 1025-len("item::k")), strings.Repeat("a", 64<<10),
	} {
		f.Add("POST /items/" + item + "/x HTTP/1.1\r\nHost: h\r\nIdempotency-Key: k\r\n\r\n")
	}
	for _, header := range []string{strings.Repeat("a", 64<<10), "a\x00b", "a\r\nX-A: b", "a\rb", "\xff", " \t "} {
		f.Add("POST /items/42/x HTTP/1.1\r\nHost: h\r\nIdempotency-Key: " + header + "\r\n\r\n")
	}
	f.Add("POST /items/" + strings.Repeat("a", 1100) + "/x HTTP/1.1\r\nHost: h\r\nIdempotency-Key: k\r\n\r\n")
	for _, header := range []string{"", "Idempotency-Key: " + strings.Repeat("%", 400) + "\r\n", "Idempotency-Key: ..%2F..\r\n", "Idempotency-Key: a\r\n b\r\n", "Idempotency-Key:\r\n", "idempotency-key: a:b%\xff\r\n", "Idempotency-Key: a\r\nIdempotency-Key: b\r\n", "Content-Length: 5\r\n"} {
		f.Add("GET /items/42/x HTTP/1.0\r\n" + header + "\r\n")
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, route := range itemRoutes {
			handleItem(t, name, route, func() *http.Request {
				r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
				if err != nil {
					t.Skip("refused by net/http")
				}
				return r
			})
		}
	})
}

// These answers contain no part of the request.
const (
	answerBusy       = `{"type":"lock-busy","title":"Busy","status":409,"detail":"Another request for the same thing is being handled.","retry_after_ms":1000}` + "\n"
	answerInvalidKey = `{"type":"lock-invalid-key","title":"Bad request","status":400,"detail":"The part of the request that identifies its subject is missing or not valid."}` + "\n"
)

// An itemRoute mounts middleware where a request's path is a parameter.
type itemRoute struct {
	id     httpmw.Part
	mount  func(mw func(http.Handler) http.Handler) http.Handler
	values func(u *url.URL) (id string, ok bool) // the item of the request, if it reaches the route
}

var itemRoutes = map[string]itemRoute{
	"chi": {httpmw.URLParam("itemID"), func(mw func(http.Handler) http.Handler) http.Handler {
		r := chi.NewRouter()
		r.With(mw).Handle("/items/{itemID}/x", ok)
		return r
	}, segment},
	"chi with PathValue": {httpmw.PathValue("itemID"), func(mw func(http.Handler) http.Handler) http.Handler {
		r := chi.NewRouter()
		r.With(mw).Handle("/items/{itemID}/x", ok)
		return r
	}, segment},
	"chi behind StripSlashes": {httpmw.URLParam("itemID"), func(mw func(http.Handler) http.Handler) http.Handler {
		r := chi.NewRouter()
		r.Use(middleware.StripSlashes)
		r.With(mw).Handle("/items/{itemID}/x", ok)
		return r
	}, stripped},
	"ServeMux": {httpmw.PathValue("itemID"), func(mw func(http.Handler) http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("/items/{itemID}/x", mw(ok))
		return mux
	}, segment},
}

// segment returns the decoded path segment that names the item.
func segment(u *url.URL) (string, bool) {
	raw, found := between(u.EscapedPath())
	id, err := url.PathUnescape(raw)
	return id, found && err == nil
}

// stripped is segment, but for the decoded path if StripSlashes has rewritten the path.
func stripped(u *url.URL) (string, bool) {
	if path, ok := strings.CutSuffix(u.Path, "/"); ok {
		return between(path)
	}
	return segment(u)
}

func between(path string) (string, bool) {
	id, begins := strings.CutPrefix(path, "/items/")
	id, ends := strings.CutSuffix(id, "/x")
	return id, begins && ends && id != "" && !strings.Contains(id, "/")
}

func handleItem(t *testing.T, name string, route itemRoute, read func() *http.Request) {
	t.Helper()
	r := read()
	if r.RequestURI == "*" && name == "ServeMux" {
		return // refused before it reaches a handler
	}
	var keys []string
	l := lockmw.NewLocal()
	mw := httpmw.WithLock(recording(l, &keys), httpmw.By("item", route.id, httpmw.Header("Idempotency-Key")))
	h := route.mount(mw)
	rec := serve(h, r)
	header := r.Header.Get("Idempotency-Key")
	id, there := route.values(r.URL)
	switch rec.Code {
	case http.StatusCreated:
		if want := lockmw.Key("item", id, header); !there || len(keys) != 1 || keys[0] != want || want == "" {
			t.Errorf("%s: %q and %q are handled under %q, want %q", name, r.RequestURI, header, keys, want)
			return
		}
		release := usertest.Occupy(t, l, keys[0])
		if rec := serve(h, read()); rec.Body.String() != answerBusy {
			t.Errorf("%s: %q and %q are answered %q while %q is locked, want what all get", name, r.RequestURI, header, rec.Body, keys)
		}
		release()
	case http.StatusBadRequest:
		if rec.Body.String() != answerInvalidKey {
			t.Errorf("%s: %q and %q are answered %q, want what all get", name, r.RequestURI, header, rec.Body)
		}
		eitherWay := name == "chi behind StripSlashes" && strings.Contains(r.URL.RawPath, id)
		if p := readProblem(t, rec); p.Type != "lock-invalid-key" || there && !eitherWay && header != "" && len(lockmw.Key("item", id, header)) <= 1024 {
			t.Errorf("%s: %q and %q are refused: %+v", name, r.RequestURI, header, p)
		}
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		if there && name != "ServeMux" && (r.Method == http.MethodPost || r.Method == http.MethodGet) {
			t.Errorf("%s: %q: status %d", name, r.RequestURI, rec.Code)
		}
	default:
		t.Errorf("%s: %q: status %d, body %s", name, r.RequestURI, rec.Code, rec.Body)
	}
	for _, key := range keys {
		if key != "" && len(key) <= 1024 && !usertest.IsFree(l, key) {
			t.Errorf("%s: %q is still locked", name, key)
		}
	}
}
