package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockmw/go/lockmw"
)

var fairTickets = withTickets([]scenario{
	{"a ticket keeps the place of a call that timed out", ticketKeepsPlace, fair},
	{"the lock passes over a place whose owner is away", ticketPassedOver, fair},
	{"nobody waits for a place whose owner is away", ticketWaitedForByNobody, fair},
	{"tickets come back in the order of their places", ticketsInOrder, fair},
	{"tries keep the place of a task that is put back", ticketOfTries, fair},
	{"a ticket's time begins when its call gives up", ticketTimeBegins, fair},
	{"a ticket ends", ticketEnds, fair},
	{"a ticket ends, and leaves nothing behind", ticketLeavesNothing, fair | server},
	{"a ticket is good for one hold", ticketGoodForOne, fair},
	{"a ticket is good for another hold if the one was lost", ticketOfLostHold, fair},
	{"a ticket keeps the place of a call that was cancelled", ticketOfCancelled, fair},
	{"a ticket keeps the place of a call that was cancelled in the instant of the grant", ticketAtGrant, fair},
	{"a ticket keeps the place of a client that was closed", ticketOfClosed, fair | server},
	{"a ticket keeps the place of a process that was killed", ticketOfKilled, fair | realTime},
	{"a ticket comes back in another process", ticketInAnotherProcess, fair | realTime},
	{"a ticket is not the owner", ticketIsNotOwner, fair},
	{"two calls with one ticket are served one after the other", ticketTwice, fair},
	{"calls with few tickets come and go and are all served", ticketsInHaste, fair},
	{"the same ticket of two keys is two tickets", ticketOfTwoKeys, fair},
	{"a ticket that was kept before the clock went back keeps its place", ticketOverClockStep, fair | server | bubble},
	{"of tickets no client tells its clock", ticketWithoutClock, fair | server | bubble},
	{"a late acquire with a ticket leaves nothing behind", ticketOfLateAcquire, fair | server | bubble},
	{"a late try with a ticket brings no place back", ticketOfLateTry, fair | server | bubble},
	{"a late cancel with a ticket brings no place back", ticketOfLateCancel, fair | server | bubble},
	{"a cancel that arrives after its ticket was served brings no place back", ticketOfOvertakenCancel, fair | server | bubble},
})

// longKept outlives the scenario: a place that is still there at its end was not given up.
const longKept = time.Hour

// visit has a call stand in the line for a moment.
func (q *line) visit(l lockmw.Locker, opts ...lockmw.Option) {
	q.e.t.Helper()
	s := q.join(l, opts...)
	s.cancel()
	q.givesUp(s, context.Canceled)
}

// try has a call fail that does not wait.
func (q *line) try(l lockmw.Locker, opts ...lockmw.Option) {
	q.e.t.Helper()
	_, held, err := q.e.rec.Lock(q.e.ctx, l, q.key, append(opts, lockmw.WithWait(0))...)
	if err == nil {
		q.e.unlock(q.e.ctx, held)
	}
	q.e.is("a try", err, lockmw.ErrBusy)
	q.stands()
	q.e.pass(time.Millisecond) // in a bubble none would
}

func ticketKeepsPlace(e *env) {
	a, b, q := e.client(), e.client(), e.line(e.key("item"))
	ticket := lockmw.WithTicket("task", longKept)
	ctx, held := e.lock(a, q.key)
	q.join(b)
	s := q.join(a, ticket, lockmw.WithWait(400*time.Millisecond))
	q.join(b)
	q.givesUp(s)
	q.join(a)
	q.joinAt(1, b, ticket) // by way of another client
	e.unlock(ctx, held)
	q.run()
}

func ticketPassedOver(e *env) {
	a, b, q := e.client(), e.client(), e.line(e.key("item"))
	ticket := lockmw.WithTicket("task", longKept)
	ctx, held := e.lock(a, q.key)
	q.visit(a, ticket)
	first := q.join(b)
	q.join(b)
	e.unlock(ctx, held)
	first.has()
	q.leave(first)
	q.joinAt(0, a, ticket)
	first.ends()
	q.run()
}

func ticketWaitedForByNobody(e *env) {
	a, b, q := e.client(), e.client(), e.line(e.key("item"))
	ticket := lockmw.WithTicket("task", longKept)
	ctx, held := e.lock(a, q.key)
	q.visit(a, ticket)
	e.unlock(ctx, held)
	e.free(b, q.key)
	e.unlock(e.lock(b, q.key, lockmw.WithWait(0)))
	e.unlock(e.lock(a, q.key, ticket)) // which gives up the place
}

func ticketsInOrder(e *env) {
	clients, q := e.clients(2), e.line(e.key("item"))
	ids := []string{"f", "e", "d", "c", "b", "a"}
	ctx, held := e.lock(clients[0], q.key)
	for i, id := range ids {
		q.visit(clients[i%2], lockmw.WithTicket(id, longKept))
	}
	q.join(clients[0])
	q.comeBack(clients[1], ids)
	e.unlock(ctx, held)
	q.run()
}

// comeBack has calls with tickets, whose places are at the head in this order, come back in another.
func (q *line) comeBack(l lockmw.Locker, ids []string) {
	q.e.t.Helper()
	var back []int // ascending
	for _, i := range rand.Perm(len(ids)) {
		at, _ := slices.BinarySearch(back, i)
		back = slices.Insert(back, at, i)
		q.joinAt(at, l, lockmw.WithTicket(ids[i], longKept))
	}
}

func ticketOfTries(e *env) {
	a, b, q := e.client(), e.client(), e.line(e.key("item"))
	ticket := lockmw.WithTicket("task", 1200*time.Millisecond)
	ctx, held := e.lock(a, q.key)
	q.try(a, ticket)
	q.join(b)
	for range 3 { // each of them keeps the place for longer
		e.pass(500 * time.Millisecond)
		q.try(b, ticket)
	}
	q.join(a)
	q.joinAt(0, a, ticket)
	e.unlock(ctx, held)
	q.run()

	ctx, held = e.lock(a, q.key)
	q.try(b, ticket)
	e.unlock(ctx, held)
	e.unlock(e.lock(a, q.key, ticket, lockmw.WithWait(0))) // nobody waits
	ctx, held = e.lock(a, q.key)
	q.join(b)
	q.join(a, ticket) // anew
	e.unlock(ctx, held)
	q.run()
}

func ticketTimeBegins(e *env) {
	const keep = 400 * time.Millisecond
	a, b, q := e.client(), e.client(), e.line(e.key("item"))
	ctx, held := e.lock(a, q.key)
	limited := q.join(a, lockmw.WithTicket("one", keep), lockmw.WithWait(3*keep))
	patient := q.join(b, lockmw.WithTicket("two", keep))
	q.join(b)
	q.givesUp(limited)
	q.joinAt(0, b, lockmw.WithTicket("one", keep))
	if e.cfg.Bubble {
		e.pass(15 * time.Minute)
	}
	patient.cancel()
	q.givesUp(patient, context.Canceled)
	if e.cfg.Bubble {
		e.pass(keep - 100*time.Millisecond)
	}
	q.joinAt(1, a, lockmw.WithTicket("two", keep))
	e.unlock(ctx, held)
	q.run()
}

func ticketEnds(e *env) {
	const keep = 300 * time.Millisecond
	a, b, q := e.client(), e.client(), e.line(e.key("item"))
	ticket := lockmw.WithTicket("task", keep)
	ctx, held := e.lock(a, q.key)
	q.visit(a, ticket)
	q.join(b)
	q.try(a, lockmw.WithTicket("tried", keep))
	q.join(b)
	e.pass(keep + 50*time.Millisecond)
	q.join(a, lockmw.WithTicket("tried", keep))
	q.join(a, ticket)
	e.unlock(ctx, held)
	q.run()
}

// keptPlaces returns the keys of places that are kept, and those that mark a ticket as served, so that
// no late command brings its place back.
func (e *env) keptPlaces() (kept, served []string) {
	e.t.Helper()
	keys, err := e.server.Keys(e.ctx, e.admin, e.prefix)
	if err != nil {
		e.t.Fatal(err)
	}
	for _, key := range keys {
		switch {
		case !strings.Contains(key, "}:kept:"):
		case e.admin.Get(e.ctx, key).Val() == "0":
			served = append(served, key)
		default:
			kept = append(kept, key)
		}
	}
	return kept, served
}

const servedMark = time.Minute // how long it stays

// withTickets are scenarios after which the marks of tickets that were served are left.
func withTickets(scenarios []scenario) []scenario {
	for i, s := range scenarios {
		scenarios[i].run = func(e *env) {
			s.run(e)
			if e.server == nil || e.t.Failed() {
				return
			}
			_, served := e.keptPlaces()
			for _, key := range served {
				if ttl := e.admin.PTTL(e.ctx, key).Val(); ttl <= 0 || ttl > servedMark {
					e.t.Errorf("%s stays for %v", key, ttl)
				}
				e.admin.Del(e.ctx, key)
			}
		}
	}
	return scenarios
}

func ticketLeavesNothing(e *env) {
	const keep = 400 * time.Millisecond
	a, q := e.client(), e.line(e.key("item"))
	ctx, held := e.lock(a, q.key)
	q.visit(a, lockmw.WithTicket("visited", keep))
	q.try(a, lockmw.WithTicket("tried", keep))
	kept, _ := e.keptPlaces()
	if len(kept) != 2 {
		e.t.Errorf("the places that are kept are %q, want two", kept)
	}
	for _, key := range kept {
		if ttl := e.admin.PTTL(e.ctx, key).Val(); ttl > keep {
			e.t.Errorf("%s is kept for %v", key, ttl)
		}
	}
	e.eventually(keep+e.soon, func() string {
		if kept, _ := e.keptPlaces(); len(kept) > 0 {
			return fmt.Sprintf("left: %q", kept)
		}
		return ""
	})
	s := q.join(a, lockmw.WithTicket("served", longKept))
	e.unlock(ctx, held)
	s.has()
	s.ends()
	q.leave(s)
	if kept, _ := e.keptPlaces(); len(kept) > 0 {
		e.t.Errorf("the places that are kept are %q, want none", kept)
	}
}

func ticketGoodForOne(e *env) {
	a, b, q := e.client(), e.client(), e.line(e.key("item"))
	ticket := lockmw.WithTicket("task", longKept)
	for range 3 {
		ctx, held := e.lock(a, q.key)
		q.visit(b, ticket)
		q.join(a)
		q.joinAt(0, b, ticket)
		e.unlock(ctx, held)
		q.run()
	}
	ctx, held := e.lock(b, q.key, ticket) // free: there is no place to keep
	q.join(a)
	e.unlock(ctx, held)
	q.run()
	ctx, held = e.lock(a, q.key)
	q.join(a)
	q.join(b, ticket)
	e.unlock(ctx, held)
	q.run()
}

func ticketOfLostHold(e *env) {
	a, b, q := e.client(), e.client(), e.line(e.key("item"))
	ticket := lockmw.WithTicket("task", longKept)
	ctx, held := e.lock(a, q.key)
	lost := q.join(b, ticket, lockmw.WithFixedLease(minLease))
	next := q.join(a)
	q.join(b)
	e.unlock(ctx, held)
	ctx, held = lost.gets(e.soon)
	q.leave(lost, next)
	next.gets(minLease + e.soon)
	e.lost(ctx, held)
	q.joinAt(0, a, ticket) // the task was not done
	next.ends()
	q.run()
}

func ticketOfCancelled(e *env) {
	a, b, q := e.client(), e.client(), e.line(e.key("item"))
	ticket := lockmw.WithTicket("task", longKept)
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
	ticket := lockmw.WithTicket("task", longKept)
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
	ticket := lockmw.WithTicket("task", longKept)
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

// withTicket is an order's WithTicket.
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
	back := e.wait(a, q.key, lockmw.WithTicket("task", longKept)) // in the place of the dead one
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

func ticketIsNotOwner(e *env) {
	const id = "0123456789abcdef0123456789abcdef" // as owners look
	a, b, q := e.client(), e.client(), e.line(e.key("item"))
	ticket := lockmw.WithTicket(id, longKept)
	ctx, held := e.lock(a, q.key, ticket)
	for _, c := range []*client{a, b} {
		_, _, err := e.rec.Lock(e.ctx, c, q.key, ticket, lockmw.WithWait(0))
		e.is("a try with the ticket of the holder", err, lockmw.ErrBusy)
	}
	first, second := q.join(a, ticket), q.join(b)
	owners := []string{id, first.heard()[0].Holders[0].Owner}
	e.unlock(ctx, held)
	first.has()
	q.leave(first)
	third := q.join(a)
	owners = append(owners, third.heard()[0].Holders[0].Owner)
	first.ends()
	second.has()
	q.leave(second)
	fourth := q.join(a)
	owners = append(owners, fourth.heard()[0].Holders[0].Owner)
	for i, owner := range owners {
		for _, other := range owners[i+1:] {
			if owner == "" || owner == other {
				e.t.Errorf("the owners are %q", owners)
			}
		}
	}
	second.ends()
	q.run()
}

func ticketTwice(e *env) {
	a, b, q := e.client(), e.client(), e.line(e.key("item"))
	ticket := lockmw.WithTicket("task", longKept)
	ctx, held := e.lock(a, q.key)
	one := e.wait(a, q.key, ticket)
	last := e.wait(b, q.key)
	two := e.wait(b, q.key, ticket) // to the same place
	three := e.wait(a, q.key, ticket)
	e.unlock(ctx, held)
	for left := []*waiter{one, two, three}; len(left) > 0; {
		w := e.first(e.soon, left)
		last.isWaiting()
		e.unlock(w.gets(0))
		left = without(left, w)
	}
	e.unlock(last.gets(e.soon))
	ctx, held = e.lock(a, q.key)
	q.join(b)
	q.join(a, ticket)
	e.unlock(ctx, held)
	q.run()
}

func ticketsInHaste(e *env) {
	const calls, rounds = 24, 12
	clients, key := e.clients(3), e.key("item")
	var wg sync.WaitGroup
	for i := range calls {
		ticket := lockmw.WithTicket(fmt.Sprint("task-", i%8), longKept)
		wg.Go(func() {
			for range rounds {
				wait := rand.N(20 * time.Millisecond)
				if rand.IntN(4) == 0 {
					wait = 0
				}
				ctx, cancel := context.WithTimeout(e.ctx, 1+rand.N(40*time.Millisecond))
				_, held, err := e.rec.Lock(ctx, clients[rand.IntN(len(clients))], key, ticket, lockmw.WithWait(wait))
				if err == nil {
					e.pass(rand.N(time.Millisecond))
					e.unlock(ctx, held)
				} else if !errors.Is(err, lockmw.ErrBusy) && !errors.Is(err, lockmw.ErrUnavailable) { // on a busy machine
					e.t.Errorf("Lock: %v", err)
				}
				cancel()
			}
			// The last hold with the ticket gives up the place.
			_, held, err := e.rec.Lock(e.ctx, clients[i%len(clients)], key, ticket)
			if err != nil {
				e.t.Errorf("Lock: %v", err)
				return
			}
			e.unlock(e.ctx, held)
		})
	}
	wg.Wait()
	e.free(clients[0], key)
}

func ticketOfTwoKeys(e *env) {
	a, b := e.client(), e.client()
	one, two := e.line(e.key("item")), e.line(e.key("item"))
	ticket := lockmw.WithTicket("task", longKept)
	ctx1, held1 := e.lock(a, one.key)
	ctx2, held2 := e.lock(a, two.key)
	one.visit(a, ticket)
	one.join(b)
	two.join(b)
	two.join(a, ticket)
	one.joinAt(0, a, ticket)
	e.unlock(ctx1, held1)
	e.unlock(ctx2, held2)
	two.run()
	one.run()
}

func ticketOverClockStep(e *env) {
	clock := e.server.NewClock(e.tb)
	a, b, q := e.client(), e.client(), e.line(e.key("item"))
	ticket := lockmw.WithTicket("task", longKept)
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
	ticket := lockmw.WithTicket("task", longKept)
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
	ticket := lockmw.WithTicket("task", longKept)
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
	ticket := lockmw.WithTicket("task", longKept)
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
	ticket := lockmw.WithTicket("task", longKept)
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
	ticket, earlier := lockmw.WithTicket("task", longKept), lockmw.WithTicket("earlier", longKept)
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
