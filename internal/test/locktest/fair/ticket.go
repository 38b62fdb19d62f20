package fair

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

var fairTickets = withTickets([]env.Scenario{
	env.Case("an absent owner's place blocks no other call", ticketWaitedForByNobody, env.Fair|env.Shares|env.Sample),
	env.Case("a ticket does not identify an owner", ticketIsNotOwner, env.Fair|env.Shares|env.Sample),
	env.Case("two calls with the same ticket are served one by one", ticketTwice, env.Fair|env.Shares|env.Sample),
	env.Case("calls that reuse a few tickets are all served", ticketsInHaste, env.Fair|env.Shares),
	env.Case("a ticket is specific to its key", ticketOfTwoKeys, env.Fair|env.Shares),
})

// longKept outlasts the scenario, so a place that is left at the end was not removed on time.
const longKept = time.Hour

// visit lets a call join the line and cancels it.
func (q *line) visit(l lockmw.Locker, opts ...lockmw.Option) {
	q.e.T.Helper()
	s := q.join(l, opts...)
	s.Cancel()
	q.givesUp(s, context.Canceled)
}

// try checks that a TryLock fails.
func (q *line) try(l lockmw.Locker, opts ...lockmw.Option) {
	q.e.T.Helper()
	_, held, err := q.e.Rec.Lock(q.e.Ctx, l, q.key, append(opts, lockmw.WithWait(0))...)
	if err == nil {
		q.e.Unlock(q.e.Ctx, held)
	}
	q.e.Is("TryLock", err, lockmw.ErrBusy)
	q.stands()
	q.e.Pass(time.Millisecond) // time does not pass by itself in a bubble
}

func ticketWaitedForByNobody(e *env.Env) {
	a, b, q := e.Client(), e.Client(), newLine(e, e.Key("item"))
	ticket := lockmw.WithPlace("task", longKept)
	ctx, held := e.Lock(a, q.key)
	q.visit(a, ticket)
	e.Unlock(ctx, held)
	e.Free(b, q.key)
	e.Unlock(e.Lock(b, q.key, lockmw.WithWait(0)))
	e.Unlock(e.Lock(a, q.key, ticket)) // ends the kept place
}

// comeBack makes calls return in random order to their places, which are at the head in the order of ids.
func (q *line) comeBack(l lockmw.Locker, ids []string) {
	q.e.T.Helper()
	var back []int // ascending
	for _, i := range rand.Perm(len(ids)) {
		at, _ := slices.BinarySearch(back, i)
		back = slices.Insert(back, at, i)
		q.joinAt(at, l, lockmw.WithPlace(ids[i], longKept))
	}
}

func ticketIsNotOwner(e *env.Env) {
	const id = "0123456789abcdef0123456789abcdef" // same form as an owner
	a, b, q := e.Client(), e.Client(), newLine(e, e.Key("item"))
	ticket := lockmw.WithPlace(id, longKept)
	ctx, held := e.Lock(a, q.key, ticket)
	for _, c := range []*env.Client{a, b} {
		_, _, err := e.Rec.Lock(e.Ctx, c, q.key, ticket, lockmw.WithWait(0))
		e.Is("TryLock with the holder's ticket", err, lockmw.ErrBusy)
	}
	first, second := q.join(a, ticket), q.join(b)
	owners := []string{id, first.notified()[0].Holders[0].Owner}
	e.Unlock(ctx, held)
	first.has()
	q.leave(first)
	third := q.join(a)
	owners = append(owners, third.notified()[0].Holders[0].Owner)
	first.ends()
	second.has()
	q.leave(second)
	fourth := q.join(a)
	owners = append(owners, fourth.notified()[0].Holders[0].Owner)
	for i, owner := range owners {
		for _, other := range owners[i+1:] {
			if owner == "" || owner == other {
				e.T.Errorf("the owners are %q", owners)
			}
		}
	}
	second.ends()
	q.run()
}

func ticketTwice(e *env.Env) {
	a, b, q := e.Client(), e.Client(), newLine(e, e.Key("item"))
	ticket := lockmw.WithPlace("task", longKept)
	ctx, held := e.Lock(a, q.key)
	one := e.Wait(a, q.key, ticket)
	last := e.Wait(b, q.key)
	two := e.Wait(b, q.key, ticket) // same place as one
	three := e.Wait(a, q.key, ticket)
	e.Unlock(ctx, held)
	for left := []*env.Waiter{one, two, three}; len(left) > 0; {
		w := env.First(e.Soon, left)
		last.IsWaiting()
		e.Unlock(w.Gets(0))
		left = env.Without(left, w)
	}
	e.Unlock(last.Gets(e.Soon))
	ctx, held = e.Lock(a, q.key)
	q.join(b)
	q.join(a, ticket)
	e.Unlock(ctx, held)
	q.run()
}

func ticketsInHaste(e *env.Env) {
	const calls, rounds = 24, 12
	clients, key := e.Clients(3), e.Key("item")
	var wg sync.WaitGroup
	for i := range calls {
		ticket := lockmw.WithPlace(fmt.Sprint("task-", i%8), longKept)
		wg.Go(func() {
			for range rounds {
				wait := rand.N(20 * time.Millisecond)
				if rand.IntN(4) == 0 {
					wait = 0
				}
				ctx, cancel := context.WithTimeout(e.Ctx, 1+rand.N(40*time.Millisecond))
				_, held, err := e.Rec.Lock(ctx, clients[rand.IntN(len(clients))], key, ticket, lockmw.WithWait(wait))
				if err == nil {
					e.Pass(rand.N(time.Millisecond))
					e.Unlock(ctx, held)
				} else if !errors.Is(err, lockmw.ErrBusy) &&
					!errors.Is(err, lockmw.ErrUnavailable) && !errors.Is(err, lockmw.ErrNotRequested) { // possible on a busy machine
					e.T.Errorf("Lock: %v", err)
				}
				cancel()
			}
			// The last hold with the ticket ends the kept place.
			_, held, err := e.Rec.Lock(e.Ctx, clients[i%len(clients)], key, ticket)
			if err != nil {
				e.T.Errorf("Lock: %v", err)
				return
			}
			e.Unlock(e.Ctx, held)
		})
	}
	wg.Wait()
	e.Free(clients[0], key)
}

func ticketOfTwoKeys(e *env.Env) {
	a, b := e.Client(), e.Client()
	one, two := newLine(e, e.Key("item")), newLine(e, e.Key("item"))
	ticket := lockmw.WithPlace("task", longKept)
	ctx1, held1 := e.Lock(a, one.key)
	ctx2, held2 := e.Lock(a, two.key)
	one.visit(a, ticket)
	one.join(b)
	two.join(b)
	two.join(a, ticket)
	one.joinAt(0, a, ticket)
	e.Unlock(ctx1, held1)
	e.Unlock(ctx2, held2)
	two.run()
	one.run()
}
