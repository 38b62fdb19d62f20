package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockmw/go/lockmw"
)

var fairTickets = withTickets([]scenario{
	{"a ticket keeps the place of a call that timed out", ticketKeepsPlace, fair | shares},
	{"the lock passes over a place whose owner is away", ticketPassedOver, fair | shares},
	{"nobody waits for a place whose owner is away", ticketWaitedForByNobody, fair | shares | sample},
	{"tickets come back in the order of their places", ticketsInOrder, fair | shares},
	{"tries keep the place of a task that is put back", ticketOfTries, fair | shares},
	{"a ticket is not the owner", ticketIsNotOwner, fair | shares | sample},
	{"two calls with one ticket are served one after the other", ticketTwice, fair | shares | sample},
	{"calls with few tickets come and go and are all served", ticketsInHaste, fair | shares},
	{"the same ticket of two keys is two tickets", ticketOfTwoKeys, fair | shares},
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
	ticket := lockmw.WithPlace("task", longKept)
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
	ticket := lockmw.WithPlace("task", longKept)
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
	ticket := lockmw.WithPlace("task", longKept)
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
		q.visit(clients[i%2], lockmw.WithPlace(id, longKept))
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
		q.joinAt(at, l, lockmw.WithPlace(ids[i], longKept))
	}
}

func ticketOfTries(e *env) {
	a, b, q := e.client(), e.client(), e.line(e.key("item"))
	ticket := lockmw.WithPlace("task", 1200*time.Millisecond)
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

func ticketIsNotOwner(e *env) {
	const id = "0123456789abcdef0123456789abcdef" // as owners look
	a, b, q := e.client(), e.client(), e.line(e.key("item"))
	ticket := lockmw.WithPlace(id, longKept)
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
	ticket := lockmw.WithPlace("task", longKept)
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
		ticket := lockmw.WithPlace(fmt.Sprint("task-", i%8), longKept)
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
	ticket := lockmw.WithPlace("task", longKept)
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
