package locktest

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/lockmw/go/lockmw"
)

var fairTicketLeaving = withTickets([]scenario{
	{"a ticket keeps the place of a call that was cancelled", ticketOfCancelled, fair | shares | sample},
	{"a ticket keeps the place of a call that was cancelled in the instant of the grant", ticketAtGrant, fair | shares},
	{"a ticket keeps the place of a client that was closed", ticketOfClosed, fair | server | shares | sample},
	{"a ticket keeps the place of a process that was killed", ticketOfKilled, fair | realTime | shares},
	{"a ticket comes back in another process", ticketInAnotherProcess, fair | realTime | shares | sample},
})

func ticketOfCancelled(e *env) {
	a, b, q := e.client(), e.client(), e.line(e.key("item"))
	ticket := lockmw.WithPlace("task", longKept)
	ctx, held := e.lock(a, q.key)
	q.visit(a, ticket)
	q.join(b)
	for range 3 {
		s := q.joinAt(0, a, ticket)
		s.cancel()
		q.givesUp(s, context.Canceled)
	}
	q.joinAt(0, b, ticket)
	e.unlock(ctx, held)
	q.run()
}

func ticketAtGrant(e *env) {
	a, b := e.client(), e.client()
	ticket := lockmw.WithPlace("task", longKept)
	for range 40 {
		q := e.line(e.key("item"))
		ctx, held := e.lock(a, q.key)
		s, next := q.join(b, ticket), q.join(a)
		q.join(a)
		released := make(chan struct{})
		go func() {
			defer close(released)
			e.unlock(ctx, held)
		}()
		if !e.cfg.Bubble { // there the scheduler alone decides who is first
			time.Sleep(rand.N(time.Millisecond)) // spread over the hand-over
		}
		s.cancel()
		<-released
		if !s.returns(e.soon) {
			return
		}
		if s.err == nil {
			q.run()
			continue
		}
		e.is("the cancelled call", s.err, lockmw.ErrBusy, context.Canceled)
		next.has()
		q.leave(s, next)
		q.joinAt(0, b, ticket)
		next.ends()
		q.run()
	}
}

func ticketOfClosed(e *env) {
	a, b, closed, q := e.client(), e.client(), e.client(), e.line(e.key("item"))
	ticket := lockmw.WithPlace("task", longKept)
	ctx, held := e.lock(a, q.key)
	s := q.join(closed, ticket)
	q.join(b)
	if err := closed.redis.Close(); err != nil {
		e.t.Errorf("Close: %v", err)
	}
	s.fails(e.soon, lockmw.ErrClosed)
	q.leave(s)
	q.stands()
	q.joinAt(0, a, ticket)
	e.unlock(ctx, held)
	q.run()
}

// withTicket is an order's WithPlace.
func withTicket(id string, keep time.Duration) func(*fairOrder) {
	return func(o *fairOrder) { o.Ticket, o.Keep = id, keep }
}

func ticketOfKilled(e *env) {
	p, a, b, q := e.queuer(), e.client(), e.client(), e.line(e.key("item"))
	ctx, held := e.lock(a, q.key)
	gone := q.joinIn(p, withTicket("task", longKept))
	next := q.join(b)
	p.kill()
	q.leave(gone)
	back := e.wait(a, q.key, lockmw.WithPlace("task", longKept)) // in the place of the dead one
	e.unlock(ctx, held)
	e.runsBy(back, time.Now().Add(acceptWindow+pollInterval))
	next.stillWaits()
	e.unlock(back.ctx, back.held)
	e.runsBy(next.waiter, time.Now().Add(acceptWindow+pollInterval))
	next.ends()
	e.reaped(q.key)
}

func ticketInAnotherProcess(e *env) {
	one, two, a, q := e.queuer(), e.queuer(), e.client(), e.line(e.key("item"))
	ctx, held := e.lock(a, q.key)
	brief := func(o *fairOrder) { o.Wait = 300 * time.Millisecond }
	s := q.joinIn(one, withTicket("task", longKept), brief)
	q.join(a)
	if r := s.remote.says(failed, patience); r.Type != "lock_timeout" {
		e.t.Errorf("the call of the other process: %q", r.Err)
	}
	q.leave(s)
	q.stands()
	q.joinInAt(0, two, withTicket("task", longKept))
	e.unlock(ctx, held)
	q.run()
}
