package httpmw_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func TestDefaultsYieldToAllOtherOptions(t *testing.T) {
	for _, tt := range []struct {
		name          string
		locker        []lockmw.Option // what the Locker was made with
		opts          []httpmw.Option
		wait, maxHold time.Duration
	}{
		{name: "no options", wait: 0, maxHold: 5 * time.Minute},
		{name: "options of the middleware", opts: []httpmw.Option{lockmw.WithWait(time.Second), lockmw.WithMaxHold(time.Hour)}, wait: time.Second, maxHold: time.Hour},
		{name: "options of the Locker", locker: []lockmw.Option{lockmw.WithWait(time.Second), lockmw.WithMaxHold(time.Hour)}, wait: time.Second, maxHold: time.Hour},
		{name: "a joined policy", opts: []httpmw.Option{lockmw.JoinOptions(lockmw.WithWait(time.Second))}, wait: time.Second, maxHold: 5 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var policy lockmw.Policy
			local := lockmw.NewLocal()
			l := lockmw.LockerFunc(func(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
				var err error
				if policy, err = lockmw.NewPolicy(append(tt.locker, opts...)...); err != nil {
					t.Fatal(err)
				}
				return local.Lock(ctx, key, opts...)
			})
			post(httpmw.WithLock(l, user42, tt.opts...)(ok), "/")
			if policy.Wait != tt.wait || policy.MaxHold != tt.maxHold {
				t.Errorf("wait %v, max hold %v; want %v, %v", policy.Wait, policy.MaxHold, tt.wait, tt.maxHold)
			}
		})
	}
}

func TestWithMethodsLocksOnlyThose(t *testing.T) {
	local := lockmw.NewLocal()
	usertest.Occupy(t, local, "user:42")
	h := httpmw.WithLock(local, user42, httpmw.WithMethods("POST", "PUT"))(ok)
	for method, want := range map[string]int{"POST": 409, "PUT": 409, "GET": 201, "DELETE": 201} {
		if rec := serve(h, httptest.NewRequest(method, "/", nil)); rec.Code != want {
			t.Errorf("%s: status %d, want %d", method, rec.Code, want)
		}
	}
}

func TestEveryMethodIsLockedByDefault(t *testing.T) {
	local := lockmw.NewLocal()
	usertest.Occupy(t, local, "user:42")
	h := httpmw.WithLock(local, user42)(never(t))
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PURGE"} {
		if rec := serve(h, httptest.NewRequest(method, "/", nil)); rec.Code != http.StatusConflict {
			t.Errorf("%s: status %d, want 409", method, rec.Code)
		}
	}
}

func TestAPanicAfterTheLossIsNotAnsweredHere(t *testing.T) {
	local := lockmw.NewLocal()
	answered := httpmw.WithErrorHandler(func(http.ResponseWriter, *http.Request, error) { t.Error("answered, so Recoverer could not answer") })
	h := httpmw.WithLock(local, user42, answered)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		local.Expire("user:42")
		panic("a bug")
	}))
	defer func() {
		if got := recover(); got != "a bug" {
			t.Errorf("recovered %v", got)
		}
	}()
	post(h, "/")
}

func TestAClientThatGoesAwayIsNotAnsweredAndWaitsNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := lockmw.NewLocal()
		release := usertest.Occupy(t, local, "user:42")
		answered := false
		h := httpmw.WithLock(local, user42, lockmw.WithWait(time.Minute), lockmw.WithMaxWaiters(1),
			httpmw.WithErrorHandler(func(http.ResponseWriter, *http.Request, error) { answered = true }))(never(t))

		ctx, goAway := context.WithCancel(t.Context())
		rec, done := httptest.NewRecorder(), make(chan struct{})
		go func() {
			defer close(done)
			h.ServeHTTP(rec, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil))
		}()
		synctest.Wait()
		goAway()
		<-done
		if rec.Code != 499 || rec.Body.Len() > 0 || answered {
			t.Errorf("status %d, body %q, error handler called: %t; want 499 for the logs and nothing else", rec.Code, rec.Body, answered)
		}
		release()
		if !usertest.IsFree(local, "user:42") {
			t.Error("the lock was granted to a client that has disconnected")
		}
	})
}

// No other request held the lock, and the lock works.
func TestADeadlineThatHasPassedMakesTheLockUnavailable(t *testing.T) {
	log := usertest.DefaultLog(t)
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	rec := serve(httpmw.WithLock(lockmw.NewLocal(), user42)(never(t)), httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil))
	if p := readProblem(t, rec); p.Status != http.StatusServiceUnavailable || p.Type != "lock-unavailable" || p.RetryAfterMS != 1000 {
		t.Errorf("got %+v, want 503 lock-unavailable", p)
	}
	if log.Len() > 0 {
		t.Errorf("logged %s", log)
	}
}

// As here, the context of a POST with an unread body does not end when the client disconnects.
func TestAWaitWithoutALimitEndsByItself(t *testing.T) {
	for name, tt := range map[string]struct {
		locker []lockmw.Option
		opts   []httpmw.Option
	}{
		"given to the middleware": {opts: []httpmw.Option{lockmw.WithWait(lockmw.Forever)}},
		"the Locker's default":    {locker: []lockmw.Option{lockmw.WithWait(lockmw.Forever)}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				local := lockmw.NewLocal(tt.locker...)
				usertest.Occupy(t, local, "user:42")
				start := time.Now()
				rec := serve(httpmw.WithLock(local, user42, tt.opts...)(never(t)), httptest.NewRequest(http.MethodPost, "/", nil))
				if p := readProblem(t, rec); p.Status != http.StatusServiceUnavailable || p.Type != "lock-timeout" {
					t.Errorf("got %+v, want 503 lock-timeout", p)
				}
				if waited := time.Since(start); waited != 5*time.Minute {
					t.Errorf("waited %v, want 5m", waited)
				}
			})
		})
	}
}

// A Locker that sees the context end may return the lock, the context's error or an outage.
func TestARequestIsRefusedAfterTheLongestWait(t *testing.T) {
	for name, tt := range map[string]struct {
		err error // nil: the Locker returns the lock
		typ string
	}{
		"a lock":               {nil, "lock-timeout"},
		"the context's error":  {context.Canceled, "lock-timeout"},
		"Redis did not answer": {lockmw.ErrUnavailable, "lock-unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				local := lockmw.NewLocal()
				late := lockmw.LockerFunc(func(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
					<-ctx.Done()
					if tt.err != nil {
						return ctx, nil, &lockmw.Error{Op: "lock", Key: key, Err: tt.err}
					}
					return local.Lock(context.WithoutCancel(ctx), key, opts...)
				})
				rec := post(httpmw.WithLock(late, user42)(never(t)), "/")
				if p := readProblem(t, rec); p.Status != http.StatusServiceUnavailable || p.Type != tt.typ {
					t.Errorf("got %+v, want 503 %s", p, tt.typ)
				}
				if !usertest.IsFree(local, "user:42") {
					t.Error("the lock was kept")
				}
			})
		})
	}
}

func TestTheLimitOfAWaitDoesNotEndTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := httpmw.WithLock(lockmw.NewLocal(), user42, lockmw.WithMaxHold(time.Hour))
		post(h(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, limited := r.Context().Deadline(); limited {
				t.Error("the handler's context got a deadline")
			}
			select {
			case <-r.Context().Done():
				t.Error("the handler's context ended")
			case <-time.After(30 * time.Minute):
			}
		})), "/")
	})
}

func TestAMountedMiddlewareServesSeveralRoutes(t *testing.T) {
	var keys []string
	mw := httpmw.WithLock(recording(lockmw.NewLocal(), &keys), httpmw.By("path", func(r *http.Request) (string, error) { return r.URL.Path, nil }))
	post(mw(ok), "/a")
	post(mw(ok), "/b")
	post(httpmw.WithLock(recording(lockmw.NewLocal(), &keys), httpmw.Const("report", "nightly"))(ok), "/c")
	if want := []string{"path:/a", "path:/b", "report:nightly"}; !slices.Equal(keys, want) {
		t.Errorf("keys %q, want %q", keys, want)
	}
}

// labelOf returns the label that other callers see for a request with this ID.
func labelOf(t *testing.T, id string, before []func(http.Handler) http.Handler, opts ...httpmw.Option) (label string) {
	t.Helper()
	local := lockmw.NewLocal()
	r := chi.NewRouter()
	r.Use(before...)
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		_, _, err := local.TryLock(t.Context(), "user:42")
		if e, ok := errors.AsType[*lockmw.Error](err); ok && len(e.Holders) == 1 {
			label = e.Holders[0].Label
		} else {
			t.Errorf("the lock is not held: %v", err)
		}
	})
	r.With(httpmw.WithLock(local, user42, opts...)).Handle("/one", handler)
	r.With(httpmw.WithRWLock(local, user42, opts...)).Handle("/rw", handler)
	r.With(httpmw.WithLockAll(local, httpmw.All(user42), opts...)).Handle("/all", handler)
	for i, route := range []string{"/one", "/rw", "/all"} {
		last := label
		req := httptest.NewRequest(http.MethodPost, route, nil)
		req.Header.Set("X-Request-Id", id)
		if serve(r, req); i > 0 && label != last {
			t.Errorf("%s: the label is %q, not %q", route, label, last)
		}
	}
	return label
}

func TestTheLabelIsTheIDOfTheRequest(t *testing.T) {
	withID := []func(http.Handler) http.Handler{middleware.RequestID}
	for _, tt := range []struct {
		id     string
		before []func(http.Handler) http.Handler
		opts   []httpmw.Option
		want   string
	}{
		{"req-7", withID, nil, "req-7"},
		{"req-7", nil, nil, ""}, // the header alone has no effect
		{"a b\u00e9" + strings.Repeat("x", 200), withID, nil, "a_b__" + strings.Repeat("x", 95)},
		{"req-7", withID, []httpmw.Option{lockmw.WithLabel("route")}, "route"},
	} {
		if got := labelOf(t, tt.id, tt.before, tt.opts...); got != tt.want {
			t.Errorf("id %q: the label is %q, want %q", tt.id, got, tt.want)
		}
	}
}
