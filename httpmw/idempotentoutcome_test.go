package httpmw_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/chi/v5/middleware"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// The second of two requests gets an answer that depends on the first run.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	even := httpmw.WithKept(func(status int) bool { return status%2 == 0 })
	const kept, forgotten, unknown = "kept", "forgotten", "unknown"
	for name, tt := range map[string]struct {
		handler http.HandlerFunc
		opts    []httpmw.IdempotentOption
		status  int // of the first answer
		want    string
	}{
		"200":               {status(200), nil, 200, kept},
		"204":               {status(204), nil, 204, kept},
		"303":               {status(303), nil, 303, kept},
		"304":               {status(304), nil, 304, kept},
		"400":               {status(400), nil, 400, forgotten},
		"404":               {status(404), nil, 404, forgotten},
		"499":               {status(499), nil, 499, forgotten},
		"500":               {status(500), nil, 500, unknown},
		"503":               {status(503), nil, 503, unknown},
		"silence":           {func(http.ResponseWriter, *http.Request) {}, nil, 200, kept},
		"a body":            {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "done") }, nil, 200, kept},
		"WithKept 404":      {status(404), []httpmw.IdempotentOption{even}, 404, kept},
		"WithKept 500":      {status(500), []httpmw.IdempotentOption{even}, 500, kept},
		"WithKept, not 201": {status(201), []httpmw.IdempotentOption{even}, 201, unknown},
		"WithKept, not 409": {status(409), []httpmw.IdempotentOption{even}, 409, forgotten},
		"WithKept, not 503": {status(503), []httpmw.IdempotentOption{even}, 503, unknown},
		"NotDone, and 201": {func(w http.ResponseWriter, r *http.Request) {
			idempotency.NotDone(r.Context())
			w.WriteHeader(http.StatusCreated)
		}, nil, 201, forgotten},
		"NotDone, and 500": {func(w http.ResponseWriter, r *http.Request) {
			idempotency.NotDone(r.Context())
			w.WriteHeader(http.StatusInternalServerError)
		}, nil, 500, forgotten},
		"a panic":  {func(http.ResponseWriter, *http.Request) { panic("a bug") }, nil, 500, unknown},
		"an abort": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil, 0, unknown},
		"a panic after 201": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, "done")
			panic("a bug")
		}, nil, 500, unknown},
		"a panic after NotDone": {func(_ http.ResponseWriter, r *http.Request) { idempotency.NotDone(r.Context()); panic("a bug") }, nil, 500, forgotten},
		"201 and then 500": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, "done")
			w.WriteHeader(http.StatusInternalServerError)
		}, nil, 500, unknown},
		"201 and then 400": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			w.WriteHeader(http.StatusBadRequest)
		}, nil, 201, kept},
		"a long 500": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write(make([]byte, 100_000))
		}, nil, 500, unknown},
		"a long 404": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write(make([]byte, 100_000))
		}, nil, 404, forgotten},
		"a flushed 404": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			w.(http.Flusher).Flush()
		}, []httpmw.IdempotentOption{httpmw.WithStreaming()}, 404, forgotten},
		"a Recoverer inside, 201": {middleware.Recoverer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated); panic("a bug") })).ServeHTTP, nil, 500, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			eachIdempotent(t, func(t *testing.T, locks lockmw.Locker) {
				var runs atomic.Int32
				h := once(locks, func(w http.ResponseWriter, r *http.Request) { runs.Add(1); tt.handler(w, r) }, tt.opts...)
				h = middleware.RequestLogger(panicLog{make(chan any, 10)})(middleware.Recoverer(h))
				if rec := aborted(h, keyed("k-1", "cart")); tt.status != 0 && rec.Code != tt.status {
					t.Errorf("the first: status %d", rec.Code)
				}
				rec := aborted(h, keyed("k-1", "cart"))
				switch tt.want {
				case kept:
					if runs.Load() != 1 || rec.Code != tt.status || rec.Header().Get("Idempotent-Replayed") != "true" {
						t.Errorf("%d runs, status %d, header %v", runs.Load(), rec.Code, rec.Header())
					}
				case forgotten:
					if runs.Load() != 2 || rec.Code != tt.status || rec.Header().Get("Idempotent-Replayed") != "" {
						t.Errorf("%d runs, status %d", runs.Load(), rec.Code)
					}
				default:
					if runs.Load() != 1 {
						t.Errorf("%d runs", runs.Load())
					}
					wantIdemProblem(t, rec, 409, "idempotency-unknown-outcome", false)
				}
			})
		})
	}
}

// aborted is serve for a handler that may abort.
func aborted(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	defer func() { _ = recover() }()
	h.ServeHTTP(rec, r)
	return rec
}

// Answers of a run after its context has ended.
func TestOutcomesAfterTheContextHasEnded(t *testing.T) {
	t.Parallel()
	gone := errors.New("the client's connection")
	for name, tt := range map[string]struct {
		handler http.HandlerFunc
		kept    bool
		status  int
	}{
		"silence":        {func(http.ResponseWriter, *http.Request) {}, false, 500},
		"a flush":        {func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }, false, 500},
		"an empty write": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(nil) }, false, 500},
		"200":            {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }, true, 200},
		"a body":         {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "done") }, true, 200},
		"a long body":    {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 100_000)) }, true, 200},
		"302":            {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusFound) }, true, 302},
		"404":            {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }, false, 404},
		"500":            {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, false, 500},
		"a hijack":       {func(w http.ResponseWriter, _ *http.Request) { _, _, _ = http.NewResponseController(w).Hijack() }, false, 500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			h := once(lockmw.NewLocal(), func(w http.ResponseWriter, r *http.Request) {
				cancel(gone)
				<-r.Context().Done()
				if cause := context.Cause(r.Context()); cause != gone {
					t.Errorf("the cause is %v", cause)
				}
				tt.handler(w, r)
			}, httpmw.WithKept(func(int) bool { return true }), httpmw.WithStreaming())
			rec := serve(h, keyed("k-1", "cart").WithContext(ctx))
			if rec.Code != tt.status {
				t.Errorf("status %d: %s", rec.Code, rec.Body)
			}
			if name == "silence" {
				wantIdemProblem(t, rec, 500, "idempotency-maybe-done", true)
			}
			again := serve(h, keyed("k-1", "cart"))
			switch {
			case !tt.kept:
				wantIdemProblem(t, again, 409, "idempotency-unknown-outcome", false)
			case name == "a long body":
				if again.Code != 409 || !strings.Contains(again.Body.String(), "idempotency-done") {
					t.Errorf("status %d: %s", again.Code, again.Body)
				}
			case again.Code != tt.status:
				t.Errorf("the replay: status %d: %s", again.Code, again.Body)
			}
		})
	}
}

// The maximum hold ends: no other run has begun, so a success is still recorded and sent.
func TestASuccessAfterALostLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // on a busy machine the lock would be lost before the run begins
		runner := idempotency.New(lockmw.NewLocal(), idempotency.WithMaxHold(10*time.Millisecond))
		var runs atomic.Int32
		h := httpmw.Idempotent(runner, scoped, idempotency.Refuse)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			if cause := context.Cause(r.Context()); !errors.Is(cause, lockmw.ErrLost) {
				t.Errorf("the cause is %v", cause)
			}
			if r.Header.Get("X-Silent") == "" {
				counted(&runs)(w, r)
			}
		}))
		wantFirst(t, serve(h, keyed("k-1", "")), false)
		wantFirst(t, serve(h, keyed("k-1", "")), true)
		wantIdemProblem(t, serve(h, keyed("k-2", "", "X-Silent", "1")), 500, "idempotency-maybe-done", true)
	})
}

// A timeout outside ends the context with the error that handlers look for, whichever of the timers is first.
func TestTheContextEndsWithTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := middleware.Timeout(time.Second)(once(lockmw.NewLocal(), func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			if err := r.Context().Err(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the context ends with %v", err)
			}
			w.WriteHeader(http.StatusGatewayTimeout)
		}))
		for i := range 255 {
			if rec := serve(h, keyed(strings.Repeat("k", i+1), "")); rec.Code != 504 {
				t.Errorf("status %d", rec.Code)
			}
		}
	})
}

// Every refusal of a lock inside is forgotten, also those with a status of 500 and above.
func TestRefusalsInsideAreForgotten(t *testing.T) {
	t.Parallel()
	unavailable := lockmw.LockerFunc(func(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		return ctx, nil, &lockmw.Error{Op: "lock", Key: key, Err: lockmw.ErrUnavailable}
	})
	broken := func(*http.Request) (string, error) { return "", errors.New("a bug") }
	teapot := httpmw.WithErrorHandler(func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusOK) })
	busy := lockmw.NewLocal()
	usertest.Occupy(t, busy, "user:42")
	for name, tt := range map[string]struct {
		inner  func(http.Handler) http.Handler
		status int
	}{
		"busy":                {httpmw.WithLock(busy, user42), 409},
		"timeout":             {httpmw.WithLock(busy, user42, lockmw.WithWait(time.Millisecond)), 503},
		"unavailable":         {httpmw.WithLock(unavailable, user42), 503},
		"a broken key":        {httpmw.WithLock(unavailable, broken), 500},
		"several":             {httpmw.WithLockAll(busy, httpmw.All(user42)), 409},
		"reading and writing": {httpmw.WithRWLock(busy, user42), 409},
		"an error handler":    {httpmw.WithLock(busy, user42, teapot), 200},
		"a lock inside another": {func(h http.Handler) http.Handler {
			another := httpmw.Idempotent(idempotency.New(lockmw.NewLocal()), user42, idempotency.Refuse)
			return another(httpmw.WithLock(unavailable, user42)(h))
		}, 503},
		"another Idempotent": {httpmw.Idempotent(idempotency.New(lockmw.NewLocal()), broken, idempotency.Refuse), 500},
	} {
		t.Run(name, func(t *testing.T) {
			var runs atomic.Int32
			refusing := tt.inner(never(t))
			h := once(lockmw.NewLocal(), func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Free") == "" {
					refusing.ServeHTTP(w, r)
					return
				}
				counted(&runs)(w, r)
			})
			for range 2 {
				if rec := serve(h, keyed("k-1", "")); rec.Code != tt.status || rec.Header().Get("Idempotent-Replayed") != "" {
					t.Errorf("status %d, header %v", rec.Code, rec.Header())
				}
			}
			wantFirst(t, serve(h, keyed("k-1", "", "X-Free", "1")), false)
			wantFirst(t, serve(h, keyed("k-1", "")), true)
		})
	}
}

// An inner lock is busy, and then free: the work runs.
func TestALockInsideIsBusyAndThenFree(t *testing.T) {
	t.Parallel()
	eachIdempotent(t, func(t *testing.T, locks lockmw.Locker) {
		free := usertest.Occupy(t, locks, "user:42")
		var runs atomic.Int32
		h := once(locks, httpmw.WithLock(locks, user42)(counted(&runs)).ServeHTTP)
		wantIdemProblem(t, serve(h, keyed("k-1", "")), 409, "lock-busy", true)
		free()
		wantFirst(t, serve(h, keyed("k-1", "")), false)
		wantFirst(t, serve(h, keyed("k-1", "")), true)
	})
}

// A lock that is lost while its handler works is no refusal.
func TestALockInsideIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // on a busy machine the lock would be lost before the handler begins
		local := lockmw.NewLocal()
		h := once(local, httpmw.WithLock(local, user42, lockmw.WithMaxHold(time.Millisecond))(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		})).ServeHTTP)
		wantIdemProblem(t, serve(h, keyed("k-1", "")), 500, "lock-lost", false)
		wantIdemProblem(t, serve(h, keyed("k-1", "")), 409, "idempotency-unknown-outcome", false)
	})
}

// The policies, over HTTP.
func TestPoliciesAfterAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	mount := func(p idempotency.Policy, runs *atomic.Int32) http.Handler {
		return httpmw.Idempotent(idempotency.New(lockmw.NewLocal()), scoped, p)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if runs.Add(1) == 1 {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			_, _ = io.WriteString(w, strings.Repeat("x", idempotency.Attempt(r.Context())))
		}))
	}
	var runs atomic.Int32
	h := mount(idempotency.RunAgain, &runs)
	serve(h, keyed("k-1", ""))
	if rec := serve(h, keyed("k-1", "")); rec.Body.String() != "xx" || runs.Load() != 2 {
		t.Errorf("RunAgain: %d runs, %q", runs.Load(), rec.Body)
	}
	var mu sync.Mutex
	answer, err := idempotency.Answer{}, errors.New("the provider is away")
	var again atomic.Int32
	h = mount(idempotency.Recover(func(context.Context, idempotency.Unfinished) (idempotency.Answer, error) {
		mu.Lock()
		defer mu.Unlock()
		return answer, err
	}), &again)
	serve(h, keyed("k-1", ""))
	wantIdemProblem(t, serve(h, keyed("k-1", "")), 409, "idempotency-unknown-outcome", false)
	answer, err = idempotency.Answer{Body: []byte("found"), Header: map[string][]string{"set-cookie": {"a=b"}, "location": {"/1"}}}, nil
	for range 2 {
		rec := serve(h, keyed("k-1", ""))
		if rec.Code != 200 || rec.Body.String() != "found" || rec.Header().Get("Set-Cookie") != "" || rec.Header().Get("Location") != "/1" {
			t.Errorf("Recover: status %d, %q, %v", rec.Code, rec.Body, rec.Header())
		}
	}
	if again.Load() != 1 {
		t.Errorf("%d runs", again.Load())
	}
}
