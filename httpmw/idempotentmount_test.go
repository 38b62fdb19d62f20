package httpmw_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-chi/chi/v5/middleware"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func TestMistakesPanicWhereIdempotentIsMounted(t *testing.T) {
	runner := idempotency.New(lockmw.NewLocal())
	with := func(opts ...httpmw.IdempotentOption) func() {
		return func() { httpmw.Idempotent(runner, scoped, idempotency.Refuse, opts...) }
	}
	for name, tt := range map[string]struct {
		mount func()
		says  string
	}{
		"no Runner":            {func() { httpmw.Idempotent(nil, scoped, idempotency.Refuse) }, "Runner is nil"},
		"a Runner of nothing":  {func() { httpmw.Idempotent(&idempotency.Runner{}, scoped, idempotency.Refuse) }, "not made by New"},
		"no policy":            {func() { httpmw.Idempotent(runner, scoped, idempotency.Policy{}) }, "Policy is not set"},
		"a Recover of nothing": {func() { httpmw.Idempotent(runner, scoped, idempotency.Recover(nil)) }, "Policy is not set"},
		"no scope":             {func() { httpmw.Idempotent(runner, nil, idempotency.Refuse) }, "scope is nil"},
		"no handler":           {func() { httpmw.Idempotent(runner, scoped, idempotency.Refuse)(nil) }, "handler is nil"},
		"a TimeoutHandler": {func() {
			httpmw.Idempotent(runner, scoped, idempotency.Refuse)(http.TimeoutHandler(ok, time.Second, ""))
		}, "mount it outside"},
		"a nil option":          {with(nil), "option 1"},
		"no function to keep":   {with(httpmw.WithKept(nil)), "WithKept"},
		"no fingerprint":        {with(httpmw.WithFingerprint(nil)), "WithFingerprint"},
		"no error handler":      {with(httpmw.WithErrorHandler(nil)), "WithErrorHandler"},
		"no header":             {with(httpmw.WithHeaders()), "WithHeaders"},
		"the header of cookies": {with(httpmw.WithHeaders("X-Order", "set-cookie")), "set-cookie"},
		"a length":              {with(httpmw.WithHeaders("Content-Length")), "Content-Length"},
		"not a header":          {with(httpmw.WithHeaders("X Order")), "X Order"},
	} {
		t.Run(name, func(t *testing.T) { usertest.WantPanic(t, "httpmw: Idempotent: ", tt.says, tt.mount) })
	}
}

// A TimeoutHandler inside returns before the work has ended. Where a middleware inside sees it, nothing runs.
func TestATimeoutHandlerInside(t *testing.T) {
	log := usertest.DefaultLog(t)
	local := lockmw.NewLocal()
	runner := idempotency.New(local)
	logged := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(middleware.NewWrapResponseWriter(w, 1), r) })
	}
	for name, inner := range map[string]http.Handler{
		"a lock":                httpmw.WithLock(lockmw.NewLocal(), user42)(never(t)),
		"a lock behind a log":   logged(httpmw.WithLock(lockmw.NewLocal(), user42)(never(t))),
		"another Idempotent":    httpmw.Idempotent(idempotency.New(lockmw.NewLocal()), scoped, idempotency.Refuse)(never(t)),
		"the same Idempotent":   httpmw.Idempotent(runner, scoped, idempotency.Refuse)(never(t)),
		"several locks, reused": httpmw.WithLockAll(local, httpmw.All(user42))(never(t)),
	} {
		h := httpmw.Idempotent(runner, scoped, idempotency.Refuse)(logged(http.TimeoutHandler(inner, time.Minute, "")))
		wantIdemProblem(t, serve(h, keyed("k-1", "")), 500, "about:blank", false)
		if runs := new(atomic.Int32); serve(httpmw.Idempotent(runner, scoped, idempotency.Refuse)(counted(runs)), keyed(name[:1]+name[len(name)-3:], "")).Code != 201 {
			t.Errorf("%s: the runner is stuck", name)
		}
	}
	if log.Len() == 0 {
		t.Error("nothing is logged")
	}
	// Elsewhere its 503 is an unknown outcome.
	gone := make(chan struct{})
	h := httpmw.Idempotent(runner, scoped, idempotency.Refuse)(logged(http.TimeoutHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-gone }), time.Millisecond, "")))
	if rec := serve(h, keyed("k-1", "")); rec.Code != 503 {
		t.Errorf("status %d", rec.Code)
	}
	close(gone)
	wantIdemProblem(t, serve(h, keyed("k-1", "")), 409, "idempotency-unknown-outcome", false)
}

// A TimeoutHandler outside answers earlier. The later answer of the handler is recorded, and a repetition gets it.
func TestATimeoutHandlerOutside(t *testing.T) {
	t.Parallel()
	eachIdempotent(t, func(t *testing.T, locks lockmw.Locker) {
		var runs atomic.Int32
		answered, returned := make(chan struct{}), make(chan struct{})
		r := keyed("k-1", "")
		ctx, pass := usertest.WithDeadline(r.Context())
		inner := once(locks, func(w http.ResponseWriter, r *http.Request) {
			pass()
			<-answered
			counted(&runs)(w, r)
		})
		h := http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			inner.ServeHTTP(w, r)
			close(returned)
		}), patience, "")
		if rec := serve(h, r.WithContext(ctx)); rec.Code != 503 {
			t.Errorf("status %d", rec.Code)
		}
		close(answered)
		usertest.Receive(t, "the end of the run", returned)
		wantFirst(t, serve(inner, keyed("k-1", "")), true)
	})
}

// A lock outside delays the answer; its order is allowed.
func TestALockOutside(t *testing.T) {
	t.Parallel()
	local := lockmw.NewLocal()
	var runs atomic.Int32
	h := httpmw.WithLock(local, user42, lockmw.WithWait(time.Minute))(once(local, counted(&runs)))
	wantFirst(t, serve(h, keyed("k-1", "cart")), false)
	wantFirst(t, serve(h, keyed("k-1", "cart")), true)
}

// The compiler refuses an option in the wrong place.
func TestOptionsAreForOneMiddleware(t *testing.T) {
	for name, o := range map[string]any{"WithRequired": httpmw.WithRequired(), "WithStreaming": httpmw.WithStreaming(), "WithHeaders": httpmw.WithHeaders("Vary")} {
		if _, other := o.(httpmw.Option); other {
			t.Errorf("WithLock accepts %s", name)
		}
	}
	for name, o := range map[string]any{"WithMethods": httpmw.WithMethods("POST"), "lockmw.WithWait": lockmw.WithWait(0), "lockmw.WithFailOpen": lockmw.WithFailOpen()} {
		if _, other := o.(httpmw.IdempotentOption); other {
			t.Errorf("Idempotent accepts %s", name)
		}
	}
}
