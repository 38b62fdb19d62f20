package fair

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

var ticketLeaving = withTickets([]env.Scenario{
	env.Case("a ticket keeps the place of a cancelled call", ticketOfCancelled, env.Fair|env.Shares|env.Sample),
	env.Case("a ticket keeps the place of a call cancelled at the moment of its grant", ticketAtGrant, env.Fair|env.Shares),
	env.Case("a ticket keeps the place of a closed client", ticketOfClosed, env.Fair|env.OnServer|env.Shares|env.Sample),
	env.Case("a ticket keeps the place of a killed process", ticketOfKilled, env.Fair|env.InRealTime|env.Shares),
	env.Case("a ticket is valid in another process", ticketInAnotherProcess, env.Fair|env.InRealTime|env.Shares|env.Sample),
})

func ticketOfCancelled(e *env.Env) {
	a, b, q := e.Client(), e.Client(), newLine(e, e.Key("item"))
	ticket := lockmw.WithPlace("task", longKept)
	ctx, held := e.Lock(a, q.key)
	q.visit(a, ticket)
	q.join(b)
	for range 3 {
		s := q.joinAt(0, a, ticket)
		s.Cancel()
		q.givesUp(s, context.Canceled)
	}
	q.joinAt(0, b, ticket)
	e.Unlock(ctx, held)
	q.run()
}

func ticketAtGrant(e *env.Env) {
	a, b := e.Client(), e.Client()
	ticket := lockmw.WithPlace("task", longKept)
	for range 40 {
		q := newLine(e, e.Key("item"))
		ctx, held := e.Lock(a, q.key)
		s, next := q.join(b, ticket), q.join(a)
		q.join(a)
		released := make(chan struct{})
		go func() {
			defer close(released)
			e.Unlock(ctx, held)
		}()
		if !e.Config.Bubble { // in a bubble the scheduler alone decides the order
			time.Sleep(rand.N(time.Millisecond)) // spread over the hand-over
		}
		s.Cancel()
		<-released
		if !s.Returns(e.Soon) {
			return
		}
		if s.Err == nil {
			q.run()
			continue
		}
		e.Is("the cancelled call", s.Err, lockmw.ErrBusy, context.Canceled)
		next.has()
		q.leave(s, next)
		q.joinAt(0, b, ticket)
		next.ends()
		q.run()
	}
}

func ticketOfClosed(e *env.Env) {
	a, b, closed, q := e.Client(), e.Client(), e.Client(), newLine(e, e.Key("item"))
	ticket := lockmw.WithPlace("task", longKept)
	ctx, held := e.Lock(a, q.key)
	s := q.join(closed, ticket)
	q.join(b)
	if err := closed.Redis.Close(); err != nil {
		e.T.Errorf("Close: %v", err)
	}
	s.Fails(e.Soon, lockmw.ErrClosed)
	q.leave(s)
	q.stands()
	q.joinAt(0, a, ticket)
	e.Unlock(ctx, held)
	q.run()
}

// withTicket adds WithPlace to an order.
func withTicket(id string, keep time.Duration) func(*order) {
	return func(o *order) { o.Ticket, o.Keep = id, keep }
}

func ticketOfKilled(e *env.Env) {
	p, a, b, q := queuer(e), e.Client(), e.Client(), newLine(e, e.Key("item"))
	ctx, held := e.Lock(a, q.key)
	gone := q.joinIn(p, withTicket("task", longKept))
	next := q.join(b)
	p.Kill()
	q.leave(gone)
	back := e.Wait(a, q.key, lockmw.WithPlace("task", longKept)) // in the killed process's place
	e.Unlock(ctx, held)
	back.RunsBy(time.Now().Add(env.AcceptWindow + env.PollInterval))
	next.stillWaits()
	e.Unlock(back.Ctx, back.Held)
	next.Waiter.RunsBy(time.Now().Add(env.AcceptWindow + env.PollInterval))
	next.ends()
	e.Reaped(q.key)
}

func ticketInAnotherProcess(e *env.Env) {
	one, two, a, q := queuer(e), queuer(e), e.Client(), newLine(e, e.Key("item"))
	ctx, held := e.Lock(a, q.key)
	s := q.joinIn(one, withTicket("task", longKept))
	q.join(a)
	one.Child.Order(env.Order{Do: "cancel", Call: s.remote.N})
	if r := s.remote.Await(judge.Failed, env.Patience); r.Type != "lock_canceled" {
		e.T.Errorf("the other process: %q", r.Err)
	}
	q.leave(s)
	q.stands()
	q.joinInAt(0, two, withTicket("task", longKept))
	e.Unlock(ctx, held)
	q.run()
}
