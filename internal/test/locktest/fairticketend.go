package locktest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lockmw/go/lockmw"
)

var fairTicketEnds = withTickets([]scenario{
	{"a ticket's time begins when its call gives up", ticketTimeBegins, fair | shares},
	{"a ticket ends", ticketEnds, fair | shares},
	{"a ticket ends, and leaves nothing behind", ticketLeavesNothing, fair | server | shares},
	{"a ticket is good for one hold", ticketGoodForOne, fair | shares | sample},
	{"a ticket is good for another hold if the one was lost", ticketOfLostHold, fair | shares | sample},
})

func ticketTimeBegins(e *env) {
	const keep = 400 * time.Millisecond
	a, b, q := e.client(), e.client(), e.line(e.key("item"))
	ctx, held := e.lock(a, q.key)
	limited := q.join(a, lockmw.WithPlace("one", keep), lockmw.WithWait(3*keep))
	patient := q.join(b, lockmw.WithPlace("two", keep))
	q.join(b)
	q.givesUp(limited)
	q.joinAt(0, b, lockmw.WithPlace("one", keep))
	if e.cfg.Bubble {
		e.pass(15 * time.Minute)
	}
	patient.cancel()
	q.givesUp(patient, context.Canceled)
	if e.cfg.Bubble {
		e.pass(keep - 100*time.Millisecond)
	}
	q.joinAt(1, a, lockmw.WithPlace("two", keep))
	e.unlock(ctx, held)
	q.run()
}

func ticketEnds(e *env) {
	const keep = 300 * time.Millisecond
	a, b, q := e.client(), e.client(), e.line(e.key("item"))
	ticket := lockmw.WithPlace("task", keep)
	ctx, held := e.lock(a, q.key)
	q.visit(a, ticket)
	q.join(b)
	q.try(a, lockmw.WithPlace("tried", keep))
	q.join(b)
	e.pass(keep + 50*time.Millisecond)
	q.join(a, lockmw.WithPlace("tried", keep))
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
	q.visit(a, lockmw.WithPlace("visited", keep))
	q.try(a, lockmw.WithPlace("tried", keep))
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
	s := q.join(a, lockmw.WithPlace("served", longKept))
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
	ticket := lockmw.WithPlace("task", longKept)
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
	ticket := lockmw.WithPlace("task", longKept)
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
