package httpmw_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

const secret = "user:secret-42"

func TestStatusesOfErrors(t *testing.T) {
	refused := func(err error) error { return &lockmw.Error{Op: "lock", Key: secret, Err: err} }
	waited := func(err error) error {
		return &lockmw.Error{Op: "lock", Key: secret, Waited: time.Second, RetryAfter: 1200 * time.Millisecond, Err: err}
	}
	for _, tt := range []struct {
		name       string
		err        error
		status     int
		typ        string
		retryAfter string
		ms         int64
		logged     string // level of the log line
	}{
		{name: "busy", err: refused(lockmw.ErrBusy), status: 409, typ: "lock-busy", retryAfter: "1", ms: 1000},
		{name: "a bare sentinel", err: lockmw.ErrBusy, status: 409, typ: "lock-busy", retryAfter: "1", ms: 1000},
		{name: "waited in vain", err: waited(lockmw.ErrBusy), status: 503, typ: "lock-timeout", retryAfter: "2", ms: 1200},
		{name: "a deadlock", err: waited(lockmw.ErrDeadlock), status: 503, typ: "lock-timeout", retryAfter: "2", ms: 1200},
		{name: "joined by a failed release", err: errors.Join(waited(lockmw.ErrBusy), lockmw.ErrNotHeld), status: 503, typ: "lock-timeout", retryAfter: "2", ms: 1200},
		{name: "too many waiters", err: refused(lockmw.ErrTooManyWaiters), status: 503, typ: "lock-too-many-waiters", retryAfter: "1", ms: 1000},
		{name: "unavailable", err: refused(fmt.Errorf("%w: dial tcp 10.0.0.7: refused", lockmw.ErrUnavailable)), status: 503, typ: "lock-unavailable", retryAfter: "1", ms: 1000, logged: "WARN"},
		{name: "unavailable until the deadline", err: refused(fmt.Errorf("%w: %w", lockmw.ErrUnavailable, context.DeadlineExceeded)), status: 503, typ: "lock-unavailable", retryAfter: "1", ms: 1000, logged: "WARN"},
		{name: "closed", err: refused(lockmw.ErrClosed), status: 503, typ: "lock-unavailable", retryAfter: "1", ms: 1000, logged: "WARN"},
		{name: "a key that is too long", err: refused(lockmw.ErrInvalidKey), status: 400, typ: "lock-invalid-key"},
		{name: "not a lock in Redis", err: refused(lockmw.ErrWrongType), status: 500, typ: "about:blank", logged: "ERROR"},
		{name: "an upgrade", err: refused(lockmw.ErrUpgrade), status: 500, typ: "about:blank", logged: "ERROR"},
		{name: "an unknown error", err: errors.New("10.0.0.7 exploded"), status: 500, typ: "about:blank", logged: "ERROR"},
		{name: "re-entry on a lost hold", err: refused(lockmw.ErrLost), status: 500, typ: "lock-lost", logged: "ERROR"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log := usertest.DefaultLog(t)
			rec := post(httpmw.WithLock(failing(tt.err), user42)(never(t)), "/")
			p := readProblem(t, rec)
			if rec.Code != tt.status || p.Type != tt.typ || p.RetryAfterMS < tt.ms || p.RetryAfterMS > tt.ms*11/10 {
				t.Errorf("got %d %+v, want %d %s, %d ms", rec.Code, p, tt.status, tt.typ, tt.ms)
			}
			if got := rec.Header().Get("Retry-After"); got != tt.retryAfter {
				t.Errorf("Retry-After %q, want %q", got, tt.retryAfter)
			}
			for _, inside := range []string{"secret", "10.0.0.7", "lockmw:"} {
				if strings.Contains(rec.Body.String(), inside) {
					t.Errorf("the body shows %q: %s", inside, rec.Body)
				}
			}
			if logged := log.Len() > 0; logged != (tt.logged != "") || !strings.Contains(log.String(), tt.logged) {
				t.Errorf("logged: %q, want level %q", log, tt.logged)
			}
			if strings.Contains(log.String(), "secret") {
				t.Errorf("the log shows the key: %s", log)
			}
		})
	}
}

func TestStatusesOfKeyErrors(t *testing.T) {
	text := func(s string, err error) httpmw.Part {
		return func(*http.Request) (string, error) { return s, err }
	}
	noClaim := httpmw.Claim(func(context.Context) (string, bool) { return "", false })
	emptyClaim := httpmw.Claim(func(context.Context) (string, bool) { return "", true })
	for _, tt := range []struct {
		name   string
		key    httpmw.KeyFunc
		status int
		typ    string
	}{
		{"an empty key", func(*http.Request) (string, error) { return "", nil }, 400, "lock-invalid-key"},
		{"an empty part", httpmw.By("user", text("1", nil), text("", nil)), 400, "lock-invalid-key"},
		{"a part that fails", httpmw.By("user", text("", errors.New("secret"))), 500, "about:blank"},
		{"a part that is not valid", httpmw.By("user", text("", fmt.Errorf("%w: secret", lockmw.ErrInvalidKey))), 400, "lock-invalid-key"},
		{"a part that takes too long", httpmw.By("user", text("", fmt.Errorf("secret: %w", context.DeadlineExceeded))), 503, "lock-unavailable"},
		{"a part without an answer yet", httpmw.By("user", text("", fmt.Errorf("%w: secret", lockmw.ErrUnavailable))), 503, "lock-unavailable"},
		{"a missing header", httpmw.By("key", httpmw.Header("Idempotency-Key")), 400, "lock-invalid-key"},
		{"no claim", httpmw.By("user", noClaim), 401, "lock-no-claim"},
		{"an empty claim", httpmw.By("user", emptyClaim), 401, "lock-no-claim"},
		{"a key of another library that fails", httpmw.KeyFunc(func(*http.Request) (string, error) { return "x", errors.New("secret") }), 500, "about:blank"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log := usertest.DefaultLog(t)
			var requested []string
			rec := post(httpmw.WithLock(recording(lockmw.NewLocal(), &requested), tt.key)(never(t)), "/")
			if p := readProblem(t, rec); p.Status != tt.status || p.Type != tt.typ {
				t.Errorf("got %+v, want %d %s", p, tt.status, tt.typ)
			}
			if strings.Contains(rec.Body.String(), "secret") {
				t.Errorf("the body shows the error: %s", rec.Body)
			}
			if len(requested) > 0 {
				t.Errorf("a lock was requested: %q", requested)
			}
			if logged := strings.Contains(log.String(), "secret"); logged != (tt.status >= 500) {
				t.Errorf("the error is logged: %t: %s", logged, log)
			}
		})
	}
}

func TestAnUnconfirmedReleaseDoesNotFailTheResponse(t *testing.T) {
	l := lockmw.LockerFunc(func(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		ctx, hold := lockmw.NewHold(ctx, key, 1, func(context.Context) error { return lockmw.ErrUnavailable })
		return ctx, hold, nil
	})
	rec := post(httpmw.WithLock(l, user42)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})), "/")
	if rec.Code != 200 || rec.Body.Len() > 0 {
		t.Errorf("status %d, body %q", rec.Code, rec.Body)
	}
}

func TestAClientThatGoesWhileItsKeyIsLookedUp(t *testing.T) {
	log := usertest.DefaultLog(t)
	ctx, goAway := context.WithCancel(t.Context())
	lookUp := func(r *http.Request) (string, error) {
		goAway()
		return "", r.Context().Err()
	}
	rec := serve(httpmw.WithLock(lockmw.NewLocal(), lookUp)(never(t)), httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil))
	if rec.Code != 499 || rec.Body.Len() > 0 || log.Len() > 0 {
		t.Errorf("status %d, body %q, log %q; want 499 alone", rec.Code, rec.Body, log)
	}
}

func TestRetryAfterIsRoundedUpCappedAndSpread(t *testing.T) {
	for _, tt := range []struct{ after, least, most time.Duration }{
		{0, time.Second, time.Second},
		{time.Microsecond, time.Second, time.Second},
		{time.Second, time.Second, time.Second},
		{time.Second + time.Microsecond, 2 * time.Second, 2 * time.Second},
		{90 * time.Second, 90 * time.Second, 99 * time.Second},
		{24 * time.Hour, 5 * time.Minute, 330 * time.Second},
		{math.MaxInt64, 5 * time.Minute, 330 * time.Second},
	} {
		seen := make(map[string]bool)
		for range 100 {
			rec := httptest.NewRecorder()
			httpmw.WriteError(rec, nil, &lockmw.Error{Op: "lock", RetryAfter: tt.after, Err: lockmw.ErrBusy})
			header := rec.Header().Get("Retry-After")
			got, err := time.ParseDuration(header + "s")
			if p := readProblem(t, rec); err != nil || got < tt.least || got > tt.most || p.RetryAfterMS > got.Milliseconds() || p.RetryAfterMS <= got.Milliseconds()-1000 {
				t.Errorf("%v: Retry-After %q, retry_after_ms %d, want %v to %v", tt.after, header, p.RetryAfterMS, tt.least, tt.most)
			}
			seen[header] = true
		}
		if spread := tt.most > tt.least; spread != (len(seen) > 1) {
			t.Errorf("%v: always %v", tt.after, seen)
		}
	}
}

func TestRetryAfterIsTheEndOfAMinimumHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := lockmw.NewLocal()
		if rec := post(httpmw.WithLock(local, user42, lockmw.WithMinHold(time.Minute))(ok), "/"); rec.Code != http.StatusCreated {
			t.Fatalf("status %d", rec.Code)
		}
		for _, again := range []struct {
			wait time.Duration
			typ  string
			rest time.Duration // of the minimum hold
		}{
			{0, "lock-busy", time.Minute},
			{20 * time.Second, "lock-timeout", 40 * time.Second},
		} {
			p := readProblem(t, post(httpmw.WithLock(local, user42, lockmw.WithWait(again.wait))(never(t)), "/"))
			after := time.Duration(p.RetryAfterMS) * time.Millisecond
			if p.Type != again.typ || after < again.rest || after > again.rest*11/10 || !strings.Contains(p.Detail, "was handled a moment ago") {
				t.Errorf("got %+v, want %s, %v and the detail of a minimum hold", p, again.typ, again.rest)
			}
		}
	})
}

func TestRetryAfterIsTheEndOfAFixedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := lockmw.NewLocal()
		if _, _, err := local.Lock(t.Context(), "user:42", lockmw.WithFixedLease(time.Minute)); err != nil {
			t.Fatal(err)
		}
		p := readProblem(t, post(httpmw.WithLock(local, user42)(never(t)), "/"))
		if after := time.Duration(p.RetryAfterMS) * time.Millisecond; after < time.Minute || after > 66*time.Second || !strings.Contains(p.Detail, "is being handled") {
			t.Errorf("got %+v", p)
		}
	})
}

func TestAnUnauthorizedResponseCarriesAChallenge(t *testing.T) {
	h := httpmw.WithLock(lockmw.NewLocal(), httpmw.By("user", httpmw.Claim(func(context.Context) (string, bool) { return "", false })))(never(t))
	if got := post(h, "/").Header().Values("WWW-Authenticate"); len(got) != 1 || got[0] != "Bearer" {
		t.Errorf("WWW-Authenticate: %q", got)
	}
	scheme := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="shop"`)
		h.ServeHTTP(w, r)
	})
	if got := post(scheme, "/").Header().Values("WWW-Authenticate"); len(got) != 1 || got[0] != `Basic realm="shop"` {
		t.Errorf("WWW-Authenticate: %q", got)
	}
}

func TestAClosedLockFailsAResponseThatHasNotBegun(t *testing.T) {
	usertest.DefaultLog(t)
	l := lockmw.LockerFunc(func(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		ctx, hold := lockmw.NewHold(ctx, key, 1, func(context.Context) error { return lockmw.ErrClosed })
		return ctx, hold, nil
	})
	rec := post(httpmw.WithLock(l, user42)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})), "/")
	if p := readProblem(t, rec); p.Status != 500 || p.Type != "lock-lost" {
		t.Errorf("got %+v, want 500 lock-lost", p)
	}
}
