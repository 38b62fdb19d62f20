package fair

import (
	"context"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

var ticketLate = withTickets([]env.Scenario{
	env.Case("a kept ticket keeps its place after the clock steps back", ticketOverClockStep, env.Fair|env.OnServer|env.InBubble),
	env.Case("no client sends its clock with a ticket", ticketWithoutClock, env.Fair|env.OnServer|env.InBubble),
	env.Case("a late acquire with a ticket leaves nothing behind", ticketOfLateAcquire, env.Fair|env.OnServer|env.InBubble),
	env.Case("a late TryLock with a ticket does not restore its place", ticketOfLateTry, env.Fair|env.OnServer|env.InBubble),
	env.Case("a late cancel with a ticket does not restore its place", ticketOfLateCancel, env.Fair|env.OnServer|env.InBubble),
	env.Case("a cancel that arrives after its ticket was served does not restore its place", ticketOfOvertakenCancel, env.Fair|env.OnServer|env.InBubble),
})

func ticketOverClockStep(e *env.Env) {
	clock := e.Server.NewClock(e.TB)
	a, b, q := e.Client(), e.Client(), newLine(e, e.Key("item"))
	ticket := lockmw.WithPlace("task", longKept)
	ctx, held := e.Lock(a, q.key, lockmw.WithLease(longKept))
	q.visit(a, ticket) // the queue is empty again
	clock.Step(-env.ClockStep)
	q.join(b)
	q.joinAt(0, a, ticket)
	e.Unlock(ctx, held)
	q.run()
}

func ticketWithoutClock(e *env.Env) {
	clock := e.Server.NewClock(e.TB)
	clock.Step(10 * 365 * 24 * time.Hour)
	a, b, q := e.Client(), e.Client(), newLine(e, e.Key("item"))
	ticket := lockmw.WithPlace("task", longKept)
	ctx, held := e.Lock(a, q.key)
	a.Wire.Record()
	b.Wire.Record()
	q.try(b, ticket)
	q.visit(a, ticket)
	q.join(b)
	s := q.joinAt(0, a, ticket, lockmw.WithWait(4*env.PollInterval))
	q.givesUp(s)
	q.joinAt(0, b, ticket)
	e.Unlock(ctx, held)
	q.run()
	for _, command := range append(a.Wire.Sent(), b.Wire.Sent()...) {
		if word := env.WordLikeNow(command); word != "" {
			e.T.Errorf("%s was sent with the client's clock reading %s", command[0], word)
		}
	}
}

// noPlace checks that a ticket starts at the end of the line.
func (q *line) noPlace(ticket lockmw.Option) {
	e, c := q.e, q.e.Client()
	ctx, held := e.Lock(c, q.key)
	q.join(c)
	q.join(c, ticket)
	e.Unlock(ctx, held)
	q.run()
}

func ticketOfLateAcquire(e *env.Env) {
	c, other, q := e.Client().Warm(), e.Client(), newLine(e, e.Key("item"))
	ticket := lockmw.WithPlace("task", longKept)
	late := c.Copied(q.key, func() { e.Unlock(e.Lock(c, q.key, ticket)) })
	ctx, held := e.Lock(other, q.key)
	e.Server.Deliver(late)
	if kept, _ := keptPlaces(e); len(kept) > 0 {
		e.T.Errorf("kept: %q", kept)
	}
	q.stands()
	e.Unlock(ctx, held)
	q.noPlace(ticket)

	ctx, held = e.Lock(other, q.key)
	late = c.Copied(q.key, func() { q.join(c, ticket) })
	e.Unlock(ctx, held)
	q.run()
	ctx, held = e.Lock(other, q.key)
	e.Server.Deliver(late)
	q.stands()
	e.Unlock(ctx, held)
	q.noPlace(ticket)
}

func ticketOfLateTry(e *env.Env) {
	c, other, q := e.Client().Warm(), e.Client(), newLine(e, e.Key("item"))
	ticket := lockmw.WithPlace("task", longKept)
	ctx, held := e.Lock(other, q.key)
	late := c.Copied(q.key, func() { q.try(c, ticket) })
	q.join(other, ticket)
	e.Unlock(ctx, held)
	q.run()
	ctx, held = e.Lock(other, q.key)
	e.Server.Deliver(late)
	e.Unlock(ctx, held)
	q.noPlace(ticket)
}

func ticketOfLateCancel(e *env.Env) {
	c, other, q := e.Client().WarmForWaits(), e.Client(), newLine(e, e.Key("item"))
	ticket := lockmw.WithPlace("task", longKept)
	ctx, held := e.Lock(other, q.key)
	s := q.join(c, ticket)
	late := c.Copied(q.key, func() {
		s.Cancel()
		q.givesUp(s, context.Canceled)
	})
	q.join(other, ticket)
	e.Unlock(ctx, held)
	q.run()
	e.Server.Deliver(late)
	q.noPlace(ticket)
}

func ticketOfOvertakenCancel(e *env.Env) {
	other := e.Client()
	ticket, earlier := lockmw.WithPlace("task", longKept), lockmw.WithPlace("earlier", longKept)
	for range 8 {
		c, q := e.Client().WarmForWaits(), newLine(e, e.Key("item"))
		ctx, held := e.Lock(other, q.key)
		q.visit(other, earlier)
		s := q.join(c, ticket)
		late := c.Wire.Withhold(q.key)
		s.Cancel()
		s.Fails(e.Soon, lockmw.ErrBusy, context.Canceled)
		e.Caught(late) // so the call is still queued
		q.leave(s)
		back := e.Wait(other, q.key, ticket)
		overtaken := queue(e, q.key)[0] != s.name // the order of two calls with the same place depends on their ids
		if !overtaken {
			late.Break() // makes the client resend the cancel
			e.Server.TicketsQueued(q.key, 1)
		}
		e.Unlock(ctx, held)
		ctx, held = back.Gets(e.Soon)
		first := e.Wait(other, q.key, earlier) // so that the call is still queued when its ticket is served
		e.Unlock(ctx, held)
		ctx, held = first.Gets(e.Soon)
		if overtaken {
			e.Server.Deliver(late)
			late.Break()
		}
		e.Unlock(ctx, held)
		q.noPlace(ticket)
	}
}
