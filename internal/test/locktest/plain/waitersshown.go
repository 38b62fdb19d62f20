package plain

import (
	"fmt"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

var waitersShown = []env.Scenario{
	waitersOf("a usual lease", lockmw.WithLease(30*time.Second), true),
	waitersOf("a usual lease", lockmw.WithLease(30*time.Second), false),
	waitersOf("a long lease", lockmw.WithLease(time.Hour), true), // with rare renewals
	waitersOf("a long lease", lockmw.WithLease(time.Hour), false),
	waitersOf("a fixed lease", lockmw.WithFixedLease(time.Minute), true), // without renewals
	waitersOf("a fixed lease", lockmw.WithFixedLease(time.Minute), false),
	env.Case("waiters are counted while the lock changes hands", waitersAmidTrafficShown, env.OnServer|env.OneNode|env.Excludes|env.InBubble),
}

// waitersOf returns the scenario of calls that wait for a hold with the lease, in the holder's process or in another one.
func waitersOf(lease string, opt lockmw.Option, here bool) env.Scenario {
	where := map[bool]string{true: "the holder's process", false: "another process"}[here]
	return env.Case("an Inspector counts waiters in "+where+", with "+lease, func(e *env.Env) {
		holder, waiting := e.Client(), e.Client()
		if here {
			waiting = holder
		}
		waitersAreShown(e, opt, holder, waiting)
	}, env.OnServer|env.OneNode|env.Shares|env.Sample)
}

// waitersAreShown makes ten calls of one process wait for a hold and give up.
func waitersAreShown(e *env.Env, opt lockmw.Option, holder, waiting *env.Client) {
	key := e.Key("task")
	ctx, held := e.Lock(holder.Rival, key, opt)
	showsWaiting(e, key, 0)
	calls := make([]*env.Waiter, 10)
	for i := range calls {
		calls[i] = e.Wait(waiting.Sides, key, opt)
	}
	showsWaiting(e, key, len(calls))
	status := e.Server.Status(key)
	for _, w := range status.Waiters {
		if isHere := w.Process == status.Holders[0].Process; isHere != (holder == waiting) || w.Mode == "" || w.Since.IsZero() && w.Ticket != "" {
			e.T.Errorf("a waiter is %+v; the holder is %+v", w, status.Holders[0])
		}
	}
	const stay = 3
	leave := func(leaving []*env.Waiter) {
		for _, w := range leaving {
			w.Cancel()
			w.Fails(e.Soon, lockmw.ErrBusy)
		}
	}
	leave(calls[stay:])
	showsWaiting(e, key, stay)
	leave(calls[:stay])
	showsWaiting(e, key, 0)
	e.Unlock(ctx, held)
}

// showsWaiting checks that an Inspector shows the number of waiting calls within a second.
func showsWaiting(e *env.Env, key string, want int) {
	e.T.Helper()
	e.Eventually(time.Second+e.Soon, func() string {
		if status := e.Server.Status(key); status.Waiting() != want {
			return fmt.Sprintf("an Inspector shows %d waiting calls, want %d: %+v", status.Waiting(), want, status.Waiters)
		}
		return ""
	})
}

// waitersAmidTrafficShown uses a lock with short holds and a constant number of waiters.
func waitersAmidTrafficShown(e *env.Env) {
	const each, hold = 5, 10 * time.Millisecond
	most := 2 * each
	if e.Config.Mode != env.ClientMode {
		most += 2 // served calls of a grant batch are shown for 20 ms more
	}
	key := e.Key("task")
	stop, done := make(chan struct{}), make(chan struct{}, 2*each)
	for _, c := range e.Clients(2) {
		for range each {
			go func() {
				defer func() { done <- struct{}{} }()
				for {
					ctx, held, err := e.Rec.Lock(e.Ctx, c, key)
					if err != nil {
						e.T.Errorf("Lock: %v", err)
						return
					}
					e.Pass(hold)
					e.Unlock(ctx, held)
					select {
					case <-stop:
						return
					default:
					}
				}
			}()
		}
	}
	e.Pass(time.Second)
	for range 100 {
		e.Pass(37 * time.Millisecond)
		if status := e.Server.Status(key); status.Waiting() < each || status.Waiting() > most {
			e.T.Errorf("an Inspector shows %d waiting calls of up to %d: %+v", status.Waiting(), 2*each-1, status.Waiters)
		}
	}
	close(stop)
	for range 2 * each {
		<-done
	}
}
