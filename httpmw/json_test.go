package httpmw_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/internal/test/webtest"
	"github.com/lockmw/go/lockmw"
)

// echo answers with the body of the request.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(w, r.Body); err != nil {
		http.Error(w, err.Error(), http.StatusTeapot)
	}
})

func TestAKeyFromAJSONBody(t *testing.T) {
	for _, tt := range []struct{ pointer, body, key, logged string }{
		{"/id", `{"id":"42"}`, "x:42", ""},
		{"/id", ` { "a" : {"id":1}, "id" : 42 } ` + "\n", "x:42", ""},
		{"/customer/id", `{"customer":{"name":"A","id":42}}`, "x:42", ""},
		{"/id", `{"id":42.0}`, "x:42.0", ""},
		{"/id", `{"id":-4.2E+1}`, "x:-4.2E+1", ""},
		{"/id", `{"id":123456789012345678901234567890}`, "x:123456789012345678901234567890", ""},
		{"/id", `{"id":false}`, "x:false", ""},
		{"/id", `{"id":"a:b%"}`, "x:a%3Ab%25", ""},
		{"/id", `{"i\u0064":"\u0061\n"}`, "x:a\n", ""},
		{"/id", `{"id":"\ud800"}`, "x:\ufffd", ""},
		{"/é", `{"é":"ü"}`, "x:ü", ""},
		{"/items/1/sku", `{"items":[{"sku":"a"},{"sku":"b"}]}`, "x:b", ""},
		{"/0", `["a"]`, "x:a", ""},
		{"/0", `{"0":"a"}`, "x:a", ""},
		{"/a~1b~0c", `{"a/b~c":"1"}`, "x:1", ""},
		{"/~01", `{"~1":"1"}`, "x:1", ""},
		{"/", `{"":"1"}`, "x:1", ""},
		{"/a//b", `{"a":{"":{"b":"1"}}}`, "x:1", ""},
		{"", ` "42" `, "x:42", ""},
		{"", `42`, "x:42", ""},
		{"/b/id", `{"a":{"id":1,"id":2},"b":{"id":3}}`, "x:3", ""}, // the duplicate is not on the path

		{"/id", ``, "", "the request has no body"},
		{"/id", ` `, "", "the body is not a JSON text"},
		{"/id", `{"id":"42"`, "", "the body is not a JSON text"},
		{"/id", `{"id":"42"} {"id":"43"}`, "", "the body is not a JSON text"},
		{"/id", `{"id":"42",}`, "", "the body is not a JSON text"},
		{"/id", "\ufeff" + `{"id":"42"}`, "", "the body is not a JSON text"},
		{"/id", strings.Repeat("[", 60_000), "", "the body is not a JSON text"},
		{"/id", strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), "", "the body is not a JSON text"},
		{"/id", `id=42`, "", "the body is not a JSON text"},
		{"/id", `{"ID":"42"}`, "", "the value is missing"},
		{"/id", `{"a":{"id":"42"}}`, "", "the value is missing"},
		{"/id", `{}`, "", "the value is missing"},
		{"/id", `"id"`, "", "the value is missing"},
		{"/id", `null`, "", "the value is missing"},
		{"/id/x", `{"id":"42"}`, "", "the value is missing"},
		{"/1", `["a"]`, "", "the value is missing"},
		{"/00", `["a"]`, "", "the value is missing"},
		{"/-", `["a"]`, "", "the value is missing"},
		{"/id", `["id"]`, "", "the value is missing"},
		{"/id", `{"id":null}`, "", "the value is null"},
		{"/id", `{"id":{}}`, "", "the value is an object"},
		{"", `{"id":"42"}`, "", "the value is an object"},
		{"/id", `{"id":[42]}`, "", "the value is an array"},
		{"/id", `{"id":""}`, "", "it is empty"},
		{"/id", `{"id":"1","id":"2"}`, "", "an object contains the name twice"},
		{"/id", `{"id":"1","i\u0064":"1"}`, "", "an object contains the name twice"},
		{"/id", `{"id":"1","ID":"2"}`, "", "an object contains the name twice"},
		{"/kind", `{"kind":"1","` + "\u212a" + `ind":"2"}`, "", "an object contains the name twice"}, // the Kelvin sign
		{"/a/id", `{"a":{"id":"1"},"a":{"id":"2"}}`, "", "an object contains the name twice"},
	} {
		t.Run(tt.pointer+" of "+fmt.Sprintf("%.40s", tt.body), func(t *testing.T) {
			log := usertest.DefaultLog(t)
			var keys []string
			h := httpmw.WithLock(recording(lockmw.NewLocal(), &keys), httpmw.By("x", httpmw.JSON(tt.pointer)))(echo)
			rec := serve(h, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(tt.body)))
			if tt.logged == "" {
				if rec.Code != http.StatusOK || rec.Body.String() != tt.body || !slices.Equal(keys, []string{tt.key}) {
					t.Errorf("status %d, body %q, keys %q; want %q", rec.Code, rec.Body, keys, tt.key)
				}
				return
			}
			if p := readProblem(t, rec); p.Status != 400 || p.Type != "lock-invalid-key" || len(keys) > 0 {
				t.Errorf("got %+v, keys %q; want 400", p, keys)
			}
			if !strings.Contains(log.String(), tt.logged) {
				t.Errorf("logged %q, want %q", log, tt.logged)
			}
		})
	}
}

// The handler can read all of a body that arrived over the wire, whatever its length.
func TestABodyThatHasTheKeyIsReadAgain(t *testing.T) {
	t.Parallel()
	const most = 64 << 10
	body := func(size int) string {
		return `{"id":"42","text":"` + strings.Repeat("x", size-len(`{"id":"42","text":""}`)) + `"}`
	}
	id := httpmw.JSON("/id")
	mux := http.NewServeMux()
	var limited http.Handler
	// Always free: a client may send its next request before the lock of its previous one is released.
	locks := lockmw.LockerFunc(func(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		return lockmw.NewLocal().Lock(ctx, key, opts...)
	})
	for path, opts := range map[string][]httpmw.Option{"/tries": nil, "/waits": {lockmw.WithWait(patience)}} {
		limited = httpmw.WithLock(locks, httpmw.By("x", id), opts...)(echo)
		mux.Handle(path, limited)
		mux.Handle(path+"/twice", httpmw.WithLock(locks, httpmw.By("y", id, id), opts...)(echo))
		mux.Handle(path+"/all", httpmw.WithLockAll(locks, httpmw.All(httpmw.By("x", id), httpmw.By("y", id)), opts...)(echo))
		mux.Handle(path+"/nested", httpmw.WithLock(locks, httpmw.By("x", id), opts...)(httpmw.WithLock(locks, httpmw.By("y", id), opts...)(echo)))
	}
	mux.Handle("/limited", http.MaxBytesHandler(limited, 1000))
	mux.Handle("/unlocked", httpmw.WithLock(lockmw.NewLocal(), func(r *http.Request) (string, error) {
		if v, err := id(r); v != "42" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
		return "", lockmw.ErrNoLock
	})(echo))
	mux.Handle("/copied", httpmw.WithLock(locks, func(r *http.Request) (string, error) {
		return id(r.WithContext(r.Context()))
	})(echo))
	mux.Handle("/asked", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // without the middleware
		if v, err := id(r); v != "42" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
		echo(w, r)
	}))
	for protocol, edit := range webtest.Protocols {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			site := webtest.NewSite(t, mux, edit)
			for _, tt := range []struct {
				path   string
				size   int
				status int
			}{
				{"/tries", 100, 200}, {"/tries", most, 200}, {"/tries", most + 1, 413}, {"/tries", 3 * most, 413},
				{"/waits", 100, 200}, {"/waits", most, 200}, {"/waits", most + 1, 413},
				{"/tries/twice", 5000, 200}, {"/waits/twice", 5000, 200}, {"/tries/all", 5000, 200}, {"/waits/all", 5000, 200},
				{"/tries/nested", 5000, 200}, {"/waits/nested", 5000, 200},
				{"/limited", 1000, 200}, {"/limited", 1001, 413},
				{"/unlocked", 5000, 200}, {"/copied", 5000, 200}, {"/asked", 5000, 200},
			} {
				for _, known := range []bool{true, false} {
					text := body(tt.size)
					var sent io.Reader = strings.NewReader(text)
					if !known {
						sent = io.MultiReader(sent) // without a Content-Length
					}
					what := fmt.Sprintf("%s, %d bytes, known: %t", tt.path, tt.size, known)
					answer := site.Do(t, http.MethodPost, tt.path, sent)
					switch {
					case answer.Status != tt.status:
						t.Errorf("%s: status %d: %.100s; want %d", what, answer.Status, answer.Body, tt.status)
					case tt.status == 413:
						wantProblem(t, answer, 413, "lock-body-too-large", false)
					case answer.Body != text:
						t.Errorf("%s: the handler read %d bytes", what, len(answer.Body))
					}
				}
			}
		})
	}
}

// timeout is chi's middleware.Timeout without its second response.
func timeout(d time.Duration) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), d)
			defer cancel()
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
}

func TestABodyThatHasTheKeyDoesNotArrive(t *testing.T) {
	t.Parallel()
	for name, server := range webtest.Servers {
		if name == "behind a stranger" { // it cannot set deadlines
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := httpmw.WithLock(lockmw.NewLocal(), httpmw.By("x", httpmw.JSON("/id")))(never(t))
			site := webtest.NewSite(t, timeout(100*time.Millisecond)(server.Around(h)), server.Protocol)
			wantProblem(t, site.Do(t, http.MethodPost, "/", stalled(t, `{"id":`)), 503, "lock-unavailable", true)
		})
	}
}

// net/http checks the type of a body. If the middleware replaced it, a client that expects a 100 would wait until the request ends.
func TestARefusalDoesNotAskForABodyThatIsTooLong(t *testing.T) {
	t.Parallel()
	site := webtest.NewSite(t, httpmw.WithLock(lockmw.NewLocal(), httpmw.By("x", httpmw.JSON("/id")))(never(t)))
	a := raw(t, site, "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 100000\r\n\r\n")
	wantProblem(t, a, 413, "lock-body-too-large", false)
}

func TestABodyThatCannotBeReadIsABadRequest(t *testing.T) {
	t.Parallel()
	site := webtest.NewSite(t, httpmw.WithLock(lockmw.NewLocal(), httpmw.By("x", httpmw.JSON("/id")))(never(t)))
	a := raw(t, site, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
	wantProblem(t, a, 400, "lock-invalid-key", false)
}

func TestAnInvalidJSONPointerPanics(t *testing.T) {
	for _, pointer := range []string{"id", "#/id", "$.id", "/a~", "/a~2", "/~~1", "/\xff"} {
		usertest.WantPanic(t, fmt.Sprintf("httpmw: JSON(%q): not a JSON pointer", pointer), "", func() { httpmw.JSON(pointer) })
	}
}

func TestARequestWithoutAKeyIsLoggedWithItsPart(t *testing.T) {
	secret := func(*http.Request) (string, error) {
		return "", fmt.Errorf("%w: secret", lockmw.ErrInvalidKey)
	}
	one := func(*http.Request) (string, error) { return "1", nil }
	for name, tt := range map[string]struct {
		key  httpmw.KeyFunc
		want []string
	}{
		"JSON":   {httpmw.By("order", one, httpmw.JSON("/customer/id")), []string{"lock=order", "part=2", `JSON(\"/customer/id\"): the request has no body`}},
		"Header": {httpmw.By("order", httpmw.Header("X-Tenant")), []string{"lock=order", "part=1", "the request has no header X-Tenant"}},
		"empty":  {httpmw.By("order", one, one, func(*http.Request) (string, error) { return "", nil }), []string{"lock=order", "part=3", "it is empty"}},
		// The text of a foreign error may quote the request.
		"a foreign part": {httpmw.By("order", secret), []string{"lock=order", "part=1", "lockmw: invalid key"}},
		"a key function": {httpmw.KeyFunc(secret), []string{"lockmw: invalid key"}},
	} {
		t.Run(name, func(t *testing.T) {
			log := usertest.DefaultLog(t)
			mux := http.NewServeMux()
			mux.Handle("POST /orders/{id}", httpmw.WithLock(lockmw.NewLocal(), tt.key)(never(t)))
			for range 100 {
				if rec := post(mux, "/orders/7"); rec.Code != 400 {
					t.Fatalf("status %d", rec.Code)
				}
			}
			for _, want := range append(tt.want, "level=INFO", "method=POST", `route="POST /orders/{id}"`, "suppressed=0") {
				if !strings.Contains(log.String(), want) {
					t.Errorf("the log does not have %q: %s", want, log)
				}
			}
			if strings.Contains(log.String(), "secret") || strings.Count(log.String(), "\n") != 1 {
				t.Errorf("want one line without the text of foreign errors: %s", log)
			}
		})
	}
}

// A key function that reads the body itself decides what the handler reads.
func TestAKeyFunctionMayReplaceTheBody(t *testing.T) {
	key := func(r *http.Request) (string, error) {
		text, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader("replaced " + string(text)))
		return "x:1", err
	}
	for _, opts := range [][]httpmw.Option{nil, {lockmw.WithWait(time.Second)}} {
		rec := serve(httpmw.WithLock(lockmw.NewLocal(), key, opts...)(echo), httptest.NewRequest(http.MethodPost, "/", strings.NewReader("body")))
		if rec.Body.String() != "replaced body" {
			t.Errorf("status %d: %s", rec.Code, rec.Body)
		}
	}
}

// Other middleware and net/http see the original body.
func TestTheRequestKeepsItsBody(t *testing.T) {
	body := io.NopCloser(strings.NewReader(`{"id":"1"}`))
	for name, key := range map[string]httpmw.KeyFunc{
		"a key":    httpmw.By("x", httpmw.JSON("/id")),
		"none":     httpmw.By("x", httpmw.JSON("/none")),
		"a panic":  func(*http.Request) (string, error) { panic(http.ErrAbortHandler) },
		"not read": user42,
	} {
		r := httptest.NewRequest(http.MethodPost, "/", body)
		before := r.Body
		func() {
			defer func() {
				if v := recover(); v != nil && !errors.Is(v.(error), http.ErrAbortHandler) {
					t.Error(v)
				}
			}()
			serve(httpmw.WithLock(lockmw.NewLocal(), key)(ok), r)
		}()
		if r.Body != before {
			t.Errorf("%s: the body is %T", name, r.Body)
		}
	}
}
