package fair

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

var fairTicketEnds = withTickets([]env.Scenario{
	env.Case("an expired or served ticket leaves nothing behind", ticketLeavesNothing, env.Fair|env.OnServer|env.Shares),
	env.Case("a lost hold ends its ticket", ticketOfLostHold, env.Fair|env.Shares|env.Sample),
})

// keptPlaces returns the Redis keys of kept places, and of marks that a ticket was served. These marks prevent late commands
// from restoring a place.
func keptPlaces(e *env.Env) (kept, served []string) {
	e.T.Helper()
	keys, err := e.Server.Keys(e.Ctx, e.Server.Prefix)
	if err != nil {
		e.T.Fatal(err)
	}
	for _, key := range keys {
		if !strings.Contains(key, "}:kept:") {
			continue
		}
		switch e.Server.Admin.Get(e.Ctx, key).Val() {
		case "": // it has expired
		case "0":
			served = append(served, key)
		default:
			kept = append(kept, key)
		}
	}
	return kept, served
}

const servedMark = time.Minute // TTL of the marks

// withTickets makes scenarios remove the marks of served tickets that they leave.
func withTickets(scenarios []env.Scenario) []env.Scenario {
	for i, s := range scenarios {
		scenarios[i].Run = func(e *env.Env) {
			s.Run(e)
			if e.Server == nil || e.T.Failed() {
				return
			}
			_, served := keptPlaces(e)
			for _, key := range served {
				const without = -1 // PTTL's answer for a key that does not expire; a mark that is gone has -2
				if ttl := e.Server.Admin.PTTL(e.Ctx, key).Val(); ttl == without || ttl > servedMark {
					e.T.Errorf("%s stays for %v", key, ttl)
				}
				e.Server.Admin.Del(e.Ctx, key)
			}
		}
	}
	return scenarios
}

func ticketLeavesNothing(e *env.Env) {
	keep := e.Ample(time.Second)
	a, q := e.Client(), newLine(e, e.Key("item"))
	ctx, held := e.Lock(a, q.key)
	q.visit(a, lockmw.WithPlace("visited", keep))
	q.try(a, lockmw.WithPlace("tried", keep))
	kept, _ := keptPlaces(e)
	if len(kept) != 2 {
		e.T.Errorf("the kept places are %q, want two", kept)
	}
	for _, key := range kept {
		if ttl := e.Server.Admin.PTTL(e.Ctx, key).Val(); ttl > keep {
			e.T.Errorf("%s is kept for %v", key, ttl)
		}
	}
	e.Eventually(keep+e.Soon, func() string {
		if kept, _ := keptPlaces(e); len(kept) > 0 {
			return fmt.Sprintf("left: %q", kept)
		}
		return ""
	})
	s := q.join(a, lockmw.WithPlace("served", longKept))
	e.Unlock(ctx, held)
	s.has()
	s.ends()
	q.leave(s)
	if kept, _ := keptPlaces(e); len(kept) > 0 {
		e.T.Errorf("the kept places are %q, want none", kept)
	}
}

func ticketOfLostHold(e *env.Env) {
	a, b, q := e.Client(), e.Client(), newLine(e, e.Key("item"))
	ticket := lockmw.WithPlace("task", longKept)
	ctx, held := e.Lock(a, q.key)
	lease := e.Ample(600 * time.Millisecond)
	lost := q.join(b, ticket, lockmw.WithFixedLease(lease))
	next := q.join(a)
	q.join(b)
	e.Unlock(ctx, held)
	ctx, held = lost.Gets(e.Soon)
	q.leave(lost, next)
	next.Gets(lease + e.Soon)
	e.Lost(ctx, held)
	q.join(a, ticket) // behind calls that have waited longer
	next.ends()
	q.run()
}
