package httpmw_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/internal/test/webtest"
	"github.com/lockmw/go/lockmw"
)

// whenWaiting calls f when the first request starts to wait.
func whenWaiting(f func()) lockmw.Option {
	return lockmw.WithObserver(&lockmw.Observer{
		Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { go f() },
	})
}

func item(id string) httpmw.KeyFunc {
	return httpmw.By("item", func(*http.Request) (string, error) { return id, nil })
}

func TestAnOuterLockThatIsLostDuringTheWait(t *testing.T) {
	for name, tt := range map[string]struct {
		outer func(t *testing.T) (l lockmw.Locker, end func())
	}{
		"by its lease": {func(*testing.T) (lockmw.Locker, func()) {
			local := lockmw.NewLocal()
			return local, func() { local.Expire("user:42") }
		}},
		"by Close": {func(t *testing.T) (lockmw.Locker, func()) {
			c := usertest.Client(t, redistest.Mini(t))
			return c, func() { _ = c.Close() }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			log := usertest.DefaultLog(t)
			outer, end := tt.outer(t)
			local := lockmw.NewLocal()
			usertest.Occupy(t, local, "item:7")
			inner := httpmw.WithLock(local, item("7"), lockmw.WithWait(patience), whenWaiting(end))
			site := webtest.NewSite(t, httpmw.WithLock(outer, user42)(inner(never(t))))
			wantProblem(t, site.Request(t, http.MethodPost, "/"), 500, "lock-lost", false)
			if !strings.Contains(log.String(), "level=ERROR") {
				t.Errorf("logged: %s", log)
			}
		})
	}
}

func TestARequestThatTheServerCancelsDuringTheWaitIsAnsweredAndNotLogged(t *testing.T) {
	log := usertest.DefaultLog(t)
	local := lockmw.NewLocal()
	usertest.Occupy(t, local, "user:42")
	base, stop := context.WithCancelCause(context.Background())
	site := webtest.NewSite(t, httpmw.WithLock(local, user42, lockmw.WithWait(patience), whenWaiting(func() { stop(errors.New("shutting down")) }))(never(t)),
		func(s *httptest.Server) { s.Config.BaseContext = func(net.Listener) context.Context { return base } })
	wantProblem(t, site.Request(t, http.MethodPost, "/"), 503, "lock-unavailable", true)
	if log.Len() > 0 {
		t.Errorf("logged: %s", log)
	}
}

// granting is a Locker that calls f as soon as it has the lock.
func granting(l lockmw.Locker, f func()) lockmw.Locker {
	return lockmw.LockerFunc(func(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		ctx, hold, err := l.Lock(ctx, key, opts...)
		f()
		return ctx, hold, err
	})
}

func TestALockThatComesTooLateIsReleased(t *testing.T) {
	log := usertest.DefaultLog(t)
	for name, tt := range map[string]struct {
		end    func(cancel context.CancelCauseFunc, local *lockmw.Local)
		status int
		typ    string // of the problem; "": no body
	}{
		"the client has gone":    {func(cancel context.CancelCauseFunc, _ *lockmw.Local) { cancel(nil) }, 499, ""},
		"the server shuts down":  {func(cancel context.CancelCauseFunc, _ *lockmw.Local) { cancel(errors.New("shutting down")) }, 503, "lock-unavailable"},
		"the lock is lost again": {func(_ context.CancelCauseFunc, l *lockmw.Local) { l.Expire("user:42") }, 500, "lock-lost"},
	} {
		t.Run(name, func(t *testing.T) {
			local := lockmw.NewLocal()
			ctx, cancel := context.WithCancelCause(t.Context())
			l := granting(local, func() { tt.end(cancel, local) })
			rec := serve(httpmw.WithLock(l, user42)(never(t)), httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil))
			if rec.Code != tt.status {
				t.Errorf("status %d, want %d", rec.Code, tt.status)
			}
			if tt.typ != "" && readProblem(t, rec).Type != tt.typ {
				t.Errorf("%s, want %s", rec.Body, tt.typ)
			}
			if !usertest.IsFree(local, "user:42") {
				t.Error("the lock was kept")
			}
			if strings.Contains(log.String(), "user:42") {
				t.Errorf("the log shows the key: %s", log)
			}
		})
	}
	t.Run("the deadline has passed", func(t *testing.T) {
		local := lockmw.NewLocal()
		ctx, pass := usertest.WithDeadline(t.Context())
		l := granting(local, pass)
		rec := serve(httpmw.WithLock(l, user42)(never(t)), httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil))
		if p := readProblem(t, rec); p.Status != 503 || p.Type != "lock-timeout" {
			t.Errorf("got %+v, want 503 lock-timeout", p)
		}
		if !usertest.IsFree(local, "user:42") {
			t.Error("the lock was kept")
		}
	})
}

// The holder is the first request with the key, so the hint that a call may wait for itself would be wrong.
func TestAWaitForTheFirstAnswerIsNotReportedAsASelfWait(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		var log usertest.Output
		c := usertest.Client(t, s, lockmw.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		user := func(*http.Request) (string, error) { return "7", nil }
		h := httpmw.Idempotent(idempotency.New(c), user, idempotency.Refuse)(
			http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(3 * time.Second) })) // of the bubble's clock
		var requests sync.WaitGroup
		replayed := make([]string, 2)
		for i := range replayed {
			requests.Go(func() {
				rec, req := httptest.NewRecorder(), httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/", nil)
				req.Header.Set("Idempotency-Key", "order-1")
				h.ServeHTTP(rec, req)
				replayed[i] = rec.Header().Get("Idempotent-Replayed")
			})
		}
		requests.Wait()
		if got := log.String(); strings.Contains(got, "its own process holds") {
			t.Errorf("logged: %s", got)
		}
		if got := replayed[0] + replayed[1]; got != "true" {
			t.Errorf("not one of the requests waited for the answer of the other: %q", replayed)
		}
	})
}

func TestAWaitForAnotherRequestIsNotReportedAsASelfWait(t *testing.T) {
	usertest.NoSelfWait(t, func(t *testing.T, c *lockmw.Client, work func()) {
		h := httpmw.WithLock(c, httpmw.Const("user", "7"), lockmw.WithWait(10*time.Second))(
			http.HandlerFunc(func(http.ResponseWriter, *http.Request) { work() }))
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/", nil))
	})
}
