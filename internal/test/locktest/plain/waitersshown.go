package plain

import (
	"fmt"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

var waitersShown = []env.Scenario{
	env.Case("an Inspector counts waiters in the holder's process", waitersHereShown, env.OnServer|env.OneNode|env.Shares|env.Sample),
	env.Case("an Inspector counts waiters in another process", waitersElsewhereShown, env.OnServer|env.OneNode|env.Shares|env.Sample),
	env.Case("waiters are counted while the lock changes hands", waitersAmidTrafficShown, env.OnServer|env.OneNode|env.Excludes|env.InBubble),
}

// renewedOrNot are holds with frequent, rare and no renewals.
var renewedOrNot = map[string]lockmw.Option{
	"a usual lease": lockmw.WithLease(30 * time.Second),
	"a long lease":  lockmw.WithLease(time.Hour),
	"a fixed lease": lockmw.WithFixedLease(time.Minute),
}

func waitersHereShown(e *env.Env) {
	for lease, opt := range renewedOrNot {
		c := e.Client()
		waitersAreShown(e, lease, opt, c, c)
	}
}

func waitersElsewhereShown(e *env.Env) {
	for lease, opt := range renewedOrNot {
		waitersAreShown(e, lease, opt, e.Client(), e.Client())
	}
}

// waitersAreShown makes ten calls of one process wait for a hold and give up.
func waitersAreShown(e *env.Env, lease string, opt lockmw.Option, holder, waiting *env.Client) {
	key := e.Key("task")
	ctx, held := e.Lock(holder.Rival, key, opt)
	showsWaiting(e, lease, key, 0)
	calls := make([]*env.Waiter, 10)
	for i := range calls {
		calls[i] = e.Wait(waiting.Sides, key, opt)
	}
	showsWaiting(e, lease, key, len(calls))
	status := e.Server.Status(key)
	for _, w := range status.Waiters {
		if isHere := w.Process == status.Holders[0].Process; isHere != (holder == waiting) || w.Mode == "" || w.Since.IsZero() && w.Ticket != "" {
			e.T.Errorf("with %s, a waiter is %+v; the holder is %+v", lease, w, status.Holders[0])
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
	showsWaiting(e, lease, key, stay)
	leave(calls[:stay])
	showsWaiting(e, lease, key, 0)
	e.Unlock(ctx, held)
}

// showsWaiting checks that an Inspector shows the number of waiting calls within a second.
func showsWaiting(e *env.Env, lease, key string, want int) {
	e.T.Helper()
	e.Eventually(time.Second+e.Soon, func() string {
		if status := e.Server.Status(key); status.Waiting() != want {
			return fmt.Sprintf("with %s, an Inspector shows %d waiting calls, want %d: %+v", lease, status.Waiting(), want, status.Waiters)
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
