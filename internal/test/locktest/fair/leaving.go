package fair

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

var leaving = []env.Scenario{
	env.Case("cancelled calls leave no tickets, and the others keep their order", leavers, env.Fair|env.Shares|env.Sample),
	env.Case("killed waiters leave no tickets", killedInLine, env.Fair|env.InRealTime|env.Shares),
	env.Case("a waiter that was considered dead returns to its old place", takenForDead, env.Fair|env.OnServer|env.InBubble),
}

var clocks = withTickets([]env.Scenario{
	env.Case("clock steps do not change the order", orderOverClockSteps, env.Fair|env.OnServer|env.InBubble),
})

func leavers(e *env.Env) {
	clients, q := e.Clients(3), newLine(e, e.Key("item"))
	ctx, held := e.Lock(clients[0], q.key)
	for i := range 18 {
		q.join(clients[i%len(clients)])
	}
	for _, i := range []int{17, 9, 8, 7, 0} { // the last one, several in a row, and the first one
		s := q.calls[i]
		s.Cancel()
		q.givesUp(s, context.Canceled)
	}
	e.Unlock(ctx, held)
	for len(q.calls) > 0 {
		first := q.calls[0]
		ctx, held := first.Gets(e.Soon)
		q.leave(first)
		if n := len(q.calls); n > 2 { // while the first call holds the lock
			gone := q.calls[rand.IntN(n)]
			gone.Cancel()
			q.givesUp(gone, context.Canceled)
		}
		e.Unlock(ctx, held)
	}
}

func killedInLine(e *env.Env) {
	c, q := e.Client(), newLine(e, e.Key("item"))
	head, middle := queuer(e), queuer(e)
	ctx, held := e.Lock(c, q.key)
	gone := []*standing{q.joinIn(head)}
	first := q.join(c)
	q.join(e.Client())
	gone = append(gone, q.joinIn(middle), q.joinIn(middle), q.joinIn(head))
	afterMiddle := q.join(e.Client())
	q.join(c)
	head.Kill()
	middle.Kill()
	q.leave(gone...)

	e.Unlock(ctx, held)
	first.Waiter.RunsBy(time.Now().Add(env.AcceptWindow + env.PollInterval))
	for q.calls[0] != afterMiddle {
		q.next()
	}
	afterMiddle.Waiter.RunsPastDead(q.key, time.Now(), env.AcceptWindow+env.PollInterval)
	q.run()
	e.Reaped(q.key)
}

// takenForDead disconnects a client for so long that its tickets are removed.
func takenForDead(e *env.Env) {
	c, absent, q := e.Client(), e.Client(), newLine(e, e.Key("item"))
	ctx, held := e.Lock(c, q.key)
	before := q.join(c)
	lost := []*standing{q.join(absent), q.join(absent)}
	next := q.join(c)
	lost = append(lost, q.join(absent))
	q.join(c)

	absent.Wire.Cut()
	e.Pass(env.DeadAfter + 2*env.BeatInterval)
	e.Unlock(ctx, held)
	before.has()
	before.ends()
	next.Gets(env.AcceptWindow + env.PollInterval + e.Soon)
	for _, s := range lost {
		s.stillWaits()
	}
	absent.Wire.Restore()
	q.leave(before, next)
	q.standsWithin(env.Patience) // the removed tickets have their old places
	q.join(c)
	next.ends()
	q.run()
}

func orderOverClockSteps(e *env.Env) {
	clock := e.Server.NewClock(e.TB)
	clients, q := e.Clients(3), newLine(e, e.Key("item"))
	ctx, held := e.Lock(clients[0], q.key, lockmw.WithLease(time.Hour))
	for i, step := range []time.Duration{0, -time.Minute, 30 * time.Second, -time.Minute, -time.Hour, 50 * time.Second, -time.Second} {
		clock.Step(step)
		q.join(clients[i%len(clients)])
		q.join(clients[(i+1)%len(clients)], lockmw.WithPlace(fmt.Sprint("task-", i), time.Hour))
	}
	e.Pass(10 * env.PollInterval)
	q.stands()
	e.Unlock(ctx, held)
	q.run()
}
