package locktest

import (
	"context"
	"time"

	"github.com/lockmw/go/lockmw"
)

var fairTicketLate = withTickets([]scenario{
	{"a ticket that was kept before the clock went back keeps its place", ticketOverClockStep, fair | server | bubble},
	{"of tickets no client tells its clock", ticketWithoutClock, fair | server | bubble},
	{"a late acquire with a ticket leaves nothing behind", ticketOfLateAcquire, fair | server | bubble},
	{"a late try with a ticket brings no place back", ticketOfLateTry, fair | server | bubble},
	{"a late cancel with a ticket brings no place back", ticketOfLateCancel, fair | server | bubble},
	{"a cancel that arrives after its ticket was served brings no place back", ticketOfOvertakenCancel, fair | server | bubble},
})

func ticketOverClockStep(e *env) {
	clock := e.server.NewClock(e.tb)
	a, b, q := e.client(), e.client(), e.line(e.key("item"))
	ticket := lockmw.WithPlace("task", longKept)
	ctx, held := e.lock(a, q.key, lockmw.WithLease(longKept))
	q.visit(a, ticket) // and the queue is empty again
	clock.Step(-clockStep)
	q.join(b)
	q.joinAt(0, a, ticket)
	e.unlock(ctx, held)
	q.run()
}

func ticketWithoutClock(e *env) {
	clock := e.server.NewClock(e.tb)
	clock.Step(10 * 365 * 24 * time.Hour)
	a, b, q := e.client(), e.client(), e.line(e.key("item"))
	ticket := lockmw.WithPlace("task", longKept)
	ctx, held := e.lock(a, q.key)
	a.wire.Record()
	b.wire.Record()
	q.try(b, ticket)
	q.visit(a, ticket)
	q.join(b)
	s := q.joinAt(0, a, ticket, lockmw.WithWait(4*pollInterval))
	q.givesUp(s)
	q.joinAt(0, b, ticket)
	e.unlock(ctx, held)
	q.run()
	for _, command := range append(a.wire.Sent(), b.wire.Sent()...) {
		if word := wordLikeNow(command); word != "" {
			e.t.Errorf("%s was sent with the client's clock, %s", command[0], word)
		}
	}
}

// noPlace checks that a ticket begins at the end of the line.
func (q *line) noPlace(ticket lockmw.Option) {
	e, c := q.e, q.e.client()
	ctx, held := e.lock(c, q.key)
	q.join(c)
	q.join(c, ticket)
	e.unlock(ctx, held)
	q.run()
}

func ticketOfLateAcquire(e *env) {
	c, other, q := e.warm(e.client()), e.client(), e.line(e.key("item"))
	ticket := lockmw.WithPlace("task", longKept)
	late := e.copied(c, q.key, func() { e.unlock(e.lock(c, q.key, ticket)) })
	ctx, held := e.lock(other, q.key)
	e.arrives(late)
	if kept, _ := e.keptPlaces(); len(kept) > 0 {
		e.t.Errorf("kept: %q", kept)
	}
	q.stands()
	e.unlock(ctx, held)
	q.noPlace(ticket)

	ctx, held = e.lock(other, q.key)
	late = e.copied(c, q.key, func() { q.join(c, ticket) })
	e.unlock(ctx, held)
	q.run()
	ctx, held = e.lock(other, q.key)
	e.arrives(late)
	q.stands()
	e.unlock(ctx, held)
	q.noPlace(ticket)
}

func ticketOfLateTry(e *env) {
	c, other, q := e.warm(e.client()), e.client(), e.line(e.key("item"))
	ticket := lockmw.WithPlace("task", longKept)
	ctx, held := e.lock(other, q.key)
	late := e.copied(c, q.key, func() { q.try(c, ticket) })
	q.join(other, ticket)
	e.unlock(ctx, held)
	q.run()
	ctx, held = e.lock(other, q.key)
	e.arrives(late)
	e.unlock(ctx, held)
	q.noPlace(ticket)
}

func ticketOfLateCancel(e *env) {
	c, other, q := e.warm(e.client()), e.client(), e.line(e.key("item"))
	ticket := lockmw.WithPlace("task", longKept)
	ctx, held := e.lock(other, q.key)
	s := q.join(c, ticket)
	late := e.copied(c, q.key, func() {
		s.cancel()
		q.givesUp(s, context.Canceled)
	})
	q.join(other, ticket)
	e.unlock(ctx, held)
	q.run()
	e.arrives(late)
	q.noPlace(ticket)
}

func ticketOfOvertakenCancel(e *env) {
	other := e.client()
	ticket, earlier := lockmw.WithPlace("task", longKept), lockmw.WithPlace("earlier", longKept)
	for range 8 {
		c, q := e.warm(e.client()), e.line(e.key("item"))
		ctx, held := e.lock(other, q.key)
		q.visit(other, earlier)
		s := q.join(c, ticket)
		late := c.wire.Withhold(q.key)
		s.cancel()
		s.fails(e.soon, lockmw.ErrBusy, context.Canceled)
		e.caught(late) // and so the call still stands in the queue
		q.leave(s)
		back := e.wait(other, q.key, ticket)
		overtaken := e.queue(q.key)[0] != s.name // which of two in one place is first depends on their ids
		if !overtaken {
			late.Break() // which has the cancel sent again
			e.ticketsQueued(q.key, 1)
		}
		e.unlock(ctx, held)
		ctx, held = back.gets(e.soon)
		first := e.wait(other, q.key, earlier) // so that the call stands in the queue when its ticket was served
		e.unlock(ctx, held)
		ctx, held = first.gets(e.soon)
		if overtaken {
			e.arrives(late)
			late.Break()
		}
		e.unlock(ctx, held)
		q.noPlace(ticket)
	}
}
