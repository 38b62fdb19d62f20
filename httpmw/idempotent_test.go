package httpmw_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/internal/test/webtest"
	"github.com/lockmw/go/lockmw"
)

// eachIdempotent runs test with each kind of Locker that keeps records itself.
func eachIdempotent(t *testing.T, test func(t *testing.T, locks lockmw.Locker)) {
	t.Helper()
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		test(t, lockmw.NewLocal())
	})
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		test(t, usertest.Client(t, redistest.Mini(t)))
	})
}

// scoped is the scope of requests of the user in X-Test-User, or of user secret-42.
func scoped(r *http.Request) (string, error) {
	if user := r.Header.Get("X-Test-User"); user != "" {
		return user, nil
	}
	return "secret-42", nil
}

// once mounts a handler so that retries with one key run it once. locks may be a *testStore with its own locks.
func once(locks lockmw.Locker, h http.HandlerFunc, opts ...httpmw.IdempotentOption) http.Handler {
	runner := []idempotency.Option{idempotency.WithWait(patience)}
	if s, ok := locks.(*testStore); ok {
		runner = append(runner, idempotency.WithStore(s))
	}
	return httpmw.Idempotent(idempotency.New(locks, runner...), scoped, idempotency.Refuse, opts...)(h)
}

// keyed is a request with an Idempotency-Key; the header is of names and values in turn.
func keyed(key, body string, header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/orders?dry=0", strings.NewReader(body))
	r.Header.Set("Idempotency-Key", key)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// counted answers 201 with the number of the run.
func counted(runs *atomic.Int32) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		n := runs.Add(1)
		w.Header().Set("Location", fmt.Sprintf("/orders/%d", n))
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, "order %d", n)
	}
}

// wantFirst checks that an answer is the first one of counted; replayed is whether it is a replay.
func wantFirst(t *testing.T, rec *httptest.ResponseRecorder, replayed bool) {
	t.Helper()
	if rec.Code != http.StatusCreated || rec.Body.String() != "order 1" || rec.Header().Get("Location") != "/orders/1" {
		t.Errorf("status %d, body %q, header %v", rec.Code, rec.Body, rec.Header())
	}
	if got := rec.Header().Get("Idempotent-Replayed"); (got == "true") != replayed || got != "" && got != "true" {
		t.Errorf("Idempotent-Replayed: %q, want a replay: %v", got, replayed)
	}
}

func wantIdemProblem(t *testing.T, rec *httptest.ResponseRecorder, status int, typ string, retry bool) {
	t.Helper()
	after := ""
	if retry {
		after = "1"
	}
	if p := readProblem(t, rec); p.Status != status || p.Type != typ || rec.Header().Get("Retry-After") != after {
		t.Errorf("%+v, Retry-After %q; want %d %s, retry: %v", p, rec.Header().Get("Retry-After"), status, typ, retry)
	}
	for _, secret := range []string{"k-1", "secret-42"} {
		if strings.Contains(rec.Body.String(), secret) {
			t.Errorf("the answer has the key or the scope: %s", rec.Body)
		}
	}
}

func TestARepetitionGetsTheFirstAnswer(t *testing.T) {
	eachIdempotent(t, func(t *testing.T, locks lockmw.Locker) {
		var runs atomic.Int32
		h := once(locks, counted(&runs))
		wantFirst(t, serve(h, keyed("k-1", "cart")), false)
		wantFirst(t, serve(h, keyed("k-1", "cart")), true)
		wantFirst(t, serve(h, keyed(`"k-1"`, "cart")), true)
		if rec := serve(h, keyed("k-2", "cart")); rec.Body.String() != "order 2" {
			t.Errorf("another key: %q", rec.Body)
		}
		if rec := serve(h, keyed("k-1", "cart", "X-Test-User", "7")); rec.Body.String() != "order 3" {
			t.Errorf("the same key of another user: %q", rec.Body)
		}
	})
}

func TestOtherRequestsWithTheKeyAreRefused(t *testing.T) {
	eachIdempotent(t, func(t *testing.T, locks lockmw.Locker) {
		var runs atomic.Int32
		h := once(locks, counted(&runs))
		serve(h, keyed("k-1", "cart"))
		for name, edit := range map[string]func(r *http.Request){
			"body":         func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("cart2")) },
			"no body":      func(r *http.Request) { r.Body, r.ContentLength = http.NoBody, 0 },
			"query":        func(r *http.Request) { r.URL.RawQuery = "dry=1" },
			"path":         func(r *http.Request) { r.URL.Path = "/orders2" },
			"method":       func(r *http.Request) { r.Method = http.MethodPatch },
			"escaped path": func(r *http.Request) { r.URL.RawPath = "/order%73" },
		} {
			r := keyed("k-1", "cart")
			edit(r)
			rec := serve(h, r)
			if rec.Code != http.StatusUnprocessableEntity {
				t.Errorf("%s: status %d", name, rec.Code)
			}
			wantIdemProblem(t, rec, 422, "idempotency-key-reused", false)
		}
		if runs.Load() != 1 {
			t.Errorf("%d runs", runs.Load())
		}
	})
}

func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	var runs atomic.Int32
	h := once(lockmw.NewLocal(), counted(&runs))
	for _, key := range []string{
		"", " ", `""`, "a b", `"a b"`, `"abc`, `abc"d e`, `"a"b"`, `"a\b"`, `"abc\"`, `"`, `"abc";p=1`, "schlüssel", "a\x7f", strings.Repeat("k", 256),
		`"` + strings.Repeat("k", 256) + `"`,
	} {
		rec := serve(h, keyed(key, ""))
		if rec.Code != 400 {
			t.Errorf("key %q: status %d", key, rec.Code)
			continue
		}
		wantIdemProblem(t, rec, 400, "idempotency-key-invalid", false)
	}
	repeated := keyed("k-1", "")
	repeated.Header.Add("Idempotency-Key", "k-1")
	wantIdemProblem(t, serve(h, repeated), 400, "idempotency-key-invalid", false)
	if runs.Load() != 0 {
		t.Errorf("%d runs", runs.Load())
	}
	for _, pair := range [][2]string{
		{"!", `"!"`}, {`a"b`, `"a\"b"`}, {`a\b`, `"a\\b"`}, {"a,b", ` "a,b" `}, {strings.Repeat("k", 255), `"` + strings.Repeat("k", 255) + `"`},
	} {
		first, second := serve(h, keyed(pair[0], "")), serve(h, keyed(pair[1], ""))
		if first.Code != 201 || second.Header().Get("Idempotent-Replayed") != "true" || first.Body.String() != second.Body.String() {
			t.Errorf("%q and %q are not the same key: %d %s, %d %s", pair[0], pair[1], first.Code, first.Body, second.Code, second.Body)
		}
	}
}

func TestRequestsWithoutAKey(t *testing.T) {
	t.Parallel()
	var runs atomic.Int32
	for range 2 {
		if rec := post(once(lockmw.NewLocal(), counted(&runs)), "/"); rec.Code != 201 || rec.Header().Get("Idempotent-Replayed") != "" {
			t.Errorf("status %d", rec.Code)
		}
	}
	if runs.Load() != 2 {
		t.Errorf("%d runs", runs.Load())
	}
	wantIdemProblem(t, post(once(lockmw.NewLocal(), never(t).ServeHTTP, httpmw.WithRequired()), "/"), 400, "idempotency-key-missing", false)
}

func TestOtherMethodsPass(t *testing.T) {
	t.Parallel()
	var runs atomic.Int32
	h := once(lockmw.NewLocal(), counted(&runs), httpmw.WithRequired())
	for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "post"} {
		for range 2 {
			before := runs.Load()
			r := keyed("k-1", "")
			r.Method = method
			if serve(h, r); runs.Load() != before+1 {
				t.Errorf("%s did not run", method)
			}
		}
	}
	r := keyed("k-1", "")
	r.Method = http.MethodPatch
	before := serve(h, r).Body.String()
	r.Body = http.NoBody
	if rec := serve(h, r); rec.Body.String() != before {
		t.Errorf("PATCH: %q and then %q", before, rec.Body)
	}
}

func TestTheScope(t *testing.T) {
	t.Parallel()
	mount := func(scope func(*http.Request) (string, error), h http.Handler) http.Handler {
		return httpmw.Idempotent(idempotency.New(lockmw.NewLocal()), scope, idempotency.Refuse)(h)
	}
	rec := serve(mount(httpmw.Claim(userID), never(t)), keyed("k-1", ""))
	wantIdemProblem(t, rec, 401, "lock-no-claim", false)
	if rec.Header().Get("Www-Authenticate") == "" {
		t.Error("no challenge")
	}
	empty := func(*http.Request) (string, error) { return "", nil }
	wantIdemProblem(t, serve(mount(empty, never(t)), keyed("k-1", "")), 400, "lock-invalid-key", false)
	var runs atomic.Int32
	none := mount(func(*http.Request) (string, error) { return "", lockmw.ErrNoLock }, counted(&runs))
	for range 2 {
		serve(none, keyed("k-1", "cart"))
	}
	if runs.Load() != 2 {
		t.Errorf("ErrNoLock: %d runs, want 2", runs.Load())
	}
	body := mount(httpmw.By("customer", httpmw.JSON("/customer")), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s run %d", text, runs.Add(1))
	}))
	if a, b := serve(body, keyed("k-1", `{"customer":7}`)), serve(body, keyed("k-1", `{"customer":8}`)); a.Body.String() != `{"customer":7} run 3` || b.Body.String() != `{"customer":8} run 4` {
		t.Errorf("scopes of the body: %s, %s", a.Body, b.Body)
	}
}

// Two requests that arrive together: one runs, the other waits for its answer or is refused.
func TestRequestsThatArriveTogether(t *testing.T) {
	t.Parallel()
	eachIdempotent(t, func(t *testing.T, locks lockmw.Locker) {
		var runs atomic.Int32
		slow := func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(20 * time.Millisecond)
			counted(&runs)(w, r)
		}
		h := once(locks, slow)
		const n = 8
		var wg sync.WaitGroup
		recs := make([]*httptest.ResponseRecorder, n)
		for i := range n {
			wg.Go(func() { recs[i] = serve(h, keyed("k-1", fmt.Sprint("payload ", i%2))) })
		}
		wg.Wait()
		statuses := make(map[int]int)
		for _, rec := range recs {
			statuses[rec.Code]++
			if rec.Code == 201 && rec.Body.String() != "order 1" {
				t.Errorf("body %q", rec.Body)
			}
		}
		if runs.Load() != 1 || statuses[201] != n/2 || statuses[422] != n/2 {
			t.Errorf("%d runs, statuses %v", runs.Load(), statuses)
		}
	})
}

func TestARepetitionThatDoesNotWait(t *testing.T) {
	t.Parallel()
	eachIdempotent(t, func(t *testing.T, locks lockmw.Locker) {
		g := newGate(t)
		h := httpmw.Idempotent(idempotency.New(locks, idempotency.WithWait(0)), scoped, idempotency.RunAgain)(g)
		first := make(chan *httptest.ResponseRecorder, 1)
		go func() { first <- serve(h, keyed("k-1", "")) }()
		<-g.entered
		wantIdemProblem(t, serve(h, keyed("k-1", "")), 409, "idempotency-in-flight", true)
		if rec := serve(h, keyed("k-1", "other")); rec.Code != 422 {
			t.Errorf("another request: status %d", rec.Code)
		}
		g.Open()
		if rec := <-first; rec.Code != 201 {
			t.Errorf("status %d", rec.Code)
		}
	})
}

// The body that a handler reads is the one that was compared.
func TestTheHandlerReadsTheBody(t *testing.T) {
	t.Parallel()
	for protocol, edit := range webtest.Protocols {
		site := webtest.NewSite(t, once(lockmw.NewLocal(), func(w http.ResponseWriter, r *http.Request) {
			n, err := io.Copy(io.Discard, r.Body)
			_, _ = fmt.Fprintln(w, n, err, r.ContentLength)
		}), edit)
		for _, size := range []int{0, 1, 70_000, 1 << 20} {
			for _, chunked := range []bool{false, true} {
				var body io.Reader = strings.NewReader(strings.Repeat("x", size))
				length := size
				if chunked && size > 0 {
					body, length = struct{ io.Reader }{body}, -1
				}
				a := site.Do(t, http.MethodPost, "/", body, "Idempotency-Key", fmt.Sprint(size, chunked)[:1]+fmt.Sprint(size), "X-Test-User", fmt.Sprint(chunked))
				if want := fmt.Sprintln(size, nil, length); a.Body != want {
					t.Errorf("%s: %q, want %q", protocol, a.Body, want)
				}
			}
		}
	}
}

func TestBodiesThatAreTooLong(t *testing.T) {
	t.Parallel()
	h := once(lockmw.NewLocal(), never(t).ServeHTTP)
	long := strings.Repeat("x", 1<<20+1)
	wantIdemProblem(t, serve(h, keyed("k-1", long)), 413, "idempotency-body-too-large", false)
	chunked := keyed("k-1", "")
	chunked.Body, chunked.ContentLength = io.NopCloser(strings.NewReader(long)), -1
	wantIdemProblem(t, serve(h, chunked), 413, "idempotency-body-too-large", false)
	wantIdemProblem(t, serve(http.MaxBytesHandler(h, 10), keyed("k-1", long[:100])), 413, "idempotency-body-too-large", false)
	broken := keyed("k-1", "")
	broken.Body = io.NopCloser(io.MultiReader(strings.NewReader("a"), failingReader{}))
	if rec := serve(h, broken); rec.Code != 400 {
		t.Errorf("a broken body: status %d", rec.Code)
	}
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// A handler that calls the route again, and a middleware that is mounted twice, are one run.
func TestNestedRequestsOfTheSameKeyPass(t *testing.T) {
	t.Parallel()
	eachIdempotent(t, func(t *testing.T, locks lockmw.Locker) {
		var runs atomic.Int32
		runner := idempotency.New(locks)
		mount := httpmw.Idempotent(runner, scoped, idempotency.Refuse)
		h := mount(mount(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if text, _ := io.ReadAll(r.Body); string(text) != "cart" {
				t.Errorf("body %q", text)
			}
			counted(&runs)(w, r)
		})))
		wantFirst(t, serve(h, keyed("k-1", "cart")), false)
		wantFirst(t, serve(h, keyed("k-1", "cart")), true)
	})
}

func TestTheHandlersContextCarriesTheRun(t *testing.T) {
	t.Parallel()
	type own struct{}
	h := once(lockmw.NewLocal(), func(_ http.ResponseWriter, r *http.Request) {
		hold, held := lockmw.FromContext(r.Context())
		if !held || hold.Token() == 0 || idempotency.Attempt(r.Context()) != 1 || r.Context().Value(own{}) != "value" {
			t.Errorf("held %v, attempt %d", held, idempotency.Attempt(r.Context()))
		}
		if _, limited := r.Context().Deadline(); !limited {
			t.Error("the deadline is missing")
		}
	})
	ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), own{}, "value"), time.Minute)
	defer cancel()
	if rec := serve(h, keyed("k-1", "").WithContext(ctx)); rec.Code != 200 {
		t.Errorf("status %d", rec.Code)
	}
}
