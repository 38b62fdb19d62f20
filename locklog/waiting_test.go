package locklog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/loglimit"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/locklog"
	"github.com/lockmw/go/lockmw"
)

func TestAWaitThatLastsIsLoggedAtTheThreshold(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		j := newJournal(t, locklog.WithLongHold(lockmw.Forever))
		_, hold := usertest.Lock(t, t.Context(), usertest.Client(t, s), "item:7", lockmw.WithLabel("job-1"))
		c := usertest.Client(t, s, lockmw.WithObserver(j.observer), lockmw.WithLabel("req-7"))
		var next *lockmw.Hold
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, next = usertest.Lock(t, t.Context(), c, "item:7")
		}()
		time.Sleep(time.Second - 1)
		j.messages()
		time.Sleep(time.Minute)
		l := j.messages(stillWaiting)[0] // once
		l.want(t, line{
			"level": "WARN", "lock.name": "item", "lock.operation": "lock", "lock.mode": "exclusive", "lock.key": "item:7",
			"lock.label": "req-7", "lock.token": nil, "lock.waited": time.Second, "lock.outcome": nil, "lock.held": nil,
			"lock.position": 1, "lock.waiters": 1, "lock.holders": 1, "holder.label": "job-1", "holder.token": hold.Token(),
			"error.type": nil, "error.message": nil,
		})
		usertest.Unlock(t, hold)
		<-done
		usertest.Unlock(t, next)
		j.messages(stillWaiting, slowWait)
	})
}

// One timer serves them all, and each is logged at a time of its own.
func TestWaitsThatBeganOneAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t, locklog.WithLongHold(lockmw.Forever), locklog.WithSlowWait(2*time.Second))
		local := j.local()
		_, hold := usertest.Lock(t, t.Context(), local, "item:7")
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				// The second one leaves before it is late.
				opts := []lockmw.Option{lockmw.WithLabel(fmt.Sprint(i)), lockmw.WithWait(time.Hour)}
				if i == 1 {
					opts[1] = lockmw.WithWait(time.Second)
				}
				if _, h, err := local.Lock(t.Context(), "item:7", opts...); err == nil {
					usertest.Unlock(t, h)
				}
			})
			time.Sleep(700 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		lines := j.messages(stillWaiting, stillWaiting, stillWaiting, stillWaiting)
		for n, i := range []int{0, 2, 3, 4} {
			lines[n].want(t, line{"lock.label": fmt.Sprint(i), "lock.waited": 2 * time.Second})
		}
		usertest.Unlock(t, hold)
		wg.Wait()
	})
}

func TestAWaitThatIsOverIsNotGoingOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, opts := range map[string][]locklog.Option{
			"in time": nil, "all": {locklog.WithSlowWait(0)}, "never": {locklog.WithSlowWait(lockmw.Forever)},
		} {
			j := newJournal(t, append(opts, locklog.WithLongHold(lockmw.Forever))...)
			acquired, failed := newScript(j.observer), newScript(j.observer)
			time.Sleep(time.Second - 1)
			acquired.Acquired(lockmw.Acquisition{})
			failed.Failed(&lockmw.Error{Err: lockmw.ErrBusy})
			time.Sleep(time.Hour)
			for _, l := range j.lines() {
				if l.message() == stillWaiting {
					t.Errorf("%s: logged %v", name, l)
				}
			}
		}
	})
}

// Calls that wait for a Redis that is silent are many, and all for the same reason.
func TestOfWaitsForRedisOneInAWhileIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t)
		for range 3 {
			newScript(j.observer)
			newScript(j.observer)
			contended := newScript(j.observer)
			contended.Contended(lockmw.Contention{Position: 1, Waiters: 1})
			time.Sleep(loglimit.Interval / 2)
		}
		time.Sleep(time.Hour)
		lines := j.messages(stillWaiting, stillWaiting, stillWaiting, stillWaiting, stillWaiting)
		for i, position := range []any{nil, 1, 1, nil, 1} {
			lines[i].want(t, line{"lock.position": position, "lock.holders": nil, "holder.owner": nil, "lock.waited": time.Second})
		}
	})
}

func TestAWaitThatLastsHasTheContextOfTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text usertest.Output
		observer := locklog.New(slog.New(ctxHandler{slog.NewJSONHandler(&text, nil)}))
		local := lockmw.NewLocal(lockmw.WithObserver(observer), lockmw.WithObserver(&lockmw.Observer{
			Start: func(ctx context.Context, _ lockmw.Attempt) context.Context { // later than locklog's
				return context.WithValue(ctx, valueKey{}, "wait")
			},
		}))
		usertest.Lock(t, t.Context(), local, "item:7")
		if _, _, err := local.Lock(t.Context(), "item:7", lockmw.WithWait(time.Second+1)); !errors.Is(err, lockmw.ErrBusy) {
			t.Fatal(err)
		}
		lines := parse(t, text.String())
		if len(lines) != 2 || lines[0].message() != stillWaiting || lines[0]["request"] != "wait" {
			t.Errorf("logged %s", text.String())
		}
	})
}
