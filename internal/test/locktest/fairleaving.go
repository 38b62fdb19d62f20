package locktest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockmw/go/lockmw"
)

var fairLeaving = []scenario{
	{"those who give up leave no ghost, and the others keep their order", leavers, fair | shares | sample},
	{"limits of different lengths end at their own time only", limits, fair | shares},
	{"those who are killed at the head and in the middle leave no ghost", killedInLine, fair | realTime | shares},
	{"one that was taken for dead comes back to its old place", takenForDead, fair | server | bubble},
	{"one whose process was stopped comes back to its old place", stoppedInLine, fair | realTime | shares},
}

var fairClocks = withTickets([]scenario{
	{"the order is not that of clocks", orderOverClockSteps, fair | server | bubble},
})

func leavers(e *env) {
	clients, q := e.clients(3), e.line(e.key("item"))
	ctx, held := e.lock(clients[0], q.key)
	for i := range 18 {
		q.join(clients[i%len(clients)])
	}
	for _, i := range []int{17, 9, 8, 7, 0} { // the last, several in a row, the first
		s := q.calls[i]
		s.cancel()
		q.givesUp(s, context.Canceled)
	}
	e.unlock(ctx, held)
	for len(q.calls) > 0 {
		first := q.calls[0]
		ctx, held := first.gets(e.soon)
		q.leave(first)
		if n := len(q.calls); n > 2 { // while somebody of the line has the lock
			gone := q.calls[rand.IntN(n)]
			gone.cancel()
			q.givesUp(gone, context.Canceled)
		}
		e.unlock(ctx, held)
	}
}

func limits(e *env) {
	clients, q := e.clients(3), e.line(e.key("item"))
	ctx, held := e.lock(clients[0], q.key)
	// Half of them give up while the lock is held, in whatever order their limits have.
	const short, long = time.Second, time.Hour
	var brief []*standing
	for i := range 24 {
		limit := long - time.Duration(rand.IntN(1000))*time.Second
		if rand.IntN(2) == 0 {
			limit = short/2 + rand.N(short/2)
		}
		s := q.join(clients[i%len(clients)], lockmw.WithWait(limit))
		if limit < short {
			brief = append(brief, s)
		}
	}
	for _, s := range brief { // the Recorder checks when
		s.fails(patience, lockmw.ErrBusy)
	}
	q.leave(brief...)
	q.stands()
	e.unlock(ctx, held)
	q.run()
}

func killedInLine(e *env) {
	c, q := e.client(), e.line(e.key("item"))
	head, middle := e.queuer(), e.queuer()
	ctx, held := e.lock(c, q.key)
	gone := []*standing{q.joinIn(head)}
	first := q.join(c)
	q.join(e.client())
	gone = append(gone, q.joinIn(middle), q.joinIn(middle), q.joinIn(head))
	afterMiddle := q.join(e.client())
	q.join(c)
	head.kill()
	middle.kill()
	q.leave(gone...)

	e.unlock(ctx, held)
	e.runsBy(first.waiter, time.Now().Add(acceptWindow+pollInterval))
	for q.calls[0] != afterMiddle {
		q.next()
	}
	e.runsBy(afterMiddle.waiter, time.Now().Add(acceptWindow+pollInterval))
	q.run()
	e.reaped(q.key)
}

// takenForDead has a client lose sight of the server for so long that its tickets are reaped.
func takenForDead(e *env) {
	c, absent, q := e.client(), e.client(), e.line(e.key("item"))
	ctx, held := e.lock(c, q.key)
	before := q.join(c)
	lost := []*standing{q.join(absent), q.join(absent)}
	next := q.join(c)
	lost = append(lost, q.join(absent))
	q.join(c)

	absent.wire.Cut()
	e.pass(5 * pollInterval)
	e.unlock(ctx, held)
	before.has()
	before.ends()
	next.gets(acceptWindow + pollInterval + e.soon)
	for _, s := range lost {
		s.stillWaits()
	}
	absent.wire.Restore()
	q.leave(before, next)
	q.standsWithin(patience) // those who were lost are where they were
	q.join(c)
	next.ends()
	q.run()
}

func stoppedInLine(e *env) {
	p, c, q := e.queuer(), e.client(), e.line(e.key("item"))
	ctx, held := e.lock(c, q.key)
	lost := q.joinIn(p)
	next := q.join(c)
	q.join(e.client())
	q.joinIn(p)

	p.child.Pause(e.tb)
	e.pass(4 * pollInterval)
	e.unlock(ctx, held)
	next.gets(acceptWindow + pollInterval + e.soon)
	p.child.Resume(e.tb)
	q.leave(next)
	q.stands() // among them the one that was lost
	lost.stillWaits()
	q.join(c)
	next.ends()
	q.run()
}

func orderOverClockSteps(e *env) {
	clock := e.server.NewClock(e.tb)
	clients, q := e.clients(3), e.line(e.key("item"))
	ctx, held := e.lock(clients[0], q.key, lockmw.WithLease(time.Hour))
	for i, step := range []time.Duration{0, -time.Minute, 30 * time.Second, -time.Minute, -time.Hour, 50 * time.Second, -time.Second} {
		clock.Step(step)
		q.join(clients[i%len(clients)])
		q.join(clients[(i+1)%len(clients)], lockmw.WithPlace(fmt.Sprint("task-", i), time.Hour))
	}
	e.pass(10 * pollInterval)
	q.stands()
	e.unlock(ctx, held)
	q.run()
}
