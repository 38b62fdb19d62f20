package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inspect"
)

// promptly is within which time an operator sees how many calls wait.
const promptly = time.Second

// status is what an operator sees.
func (b *bubble) status() *inspect.Status {
	b.Helper()
	i, err := inspect.New(b.rdb, inspect.Config{Prefix: DefaultConfig().Prefix})
	if err != nil {
		b.Fatal(err)
	}
	s, err := i.Get(b.Context(), bubbleKey)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// waiting returns an operator's view of the waiters: the number of calls behind the holder, and the number of calls that share
// each ticket.
func (b *bubble) waiting() string {
	b.Helper()
	behind, tickets := 0, []int{}
	for _, w := range b.status().Waiters {
		if w.Ticket == "" {
			behind = w.Calls
		} else {
			tickets = append(tickets, w.Calls)
		}
	}
	return fmt.Sprint(behind, tickets)
}

// wantSeen checks what an operator sees after a time.
func (b *bubble) wantSeen(what string, after time.Duration, want string) {
	b.Helper()
	time.Sleep(after)
	if got := b.waiting(); got != want {
		b.Errorf("%s: after %v an operator sees %s, want %s", what, after, got, want)
	}
}

// waitersOf starts n calls that wait.
func (b *bubble) waitersOf(e *Engine, n int, edit ...func(*core.Request)) []*calling {
	b.Helper()
	all := make([]*calling, n)
	for i := range all {
		a := b.requester(core.Exclusive)
		for _, f := range edit {
			f(&a.Request)
		}
		all[i] = b.call(e, a)
		b.wantWaiting("one of several waiters", all[i])
	}
	return all
}

func (b *bubble) stop(all []*calling) {
	for _, c := range all {
		c.stop()
		<-c.done
	}
}

// terms are options of holds. Reports must not depend on the renewals of any of them.
var terms = map[string]func(*core.Request){
	"a usual lease": func(*core.Request) {},
	"a long lease":  func(r *core.Request) { r.Lease = time.Hour },
	"a fixed lease": func(r *core.Request) { r.Lease, r.Fixed = time.Minute, true },
	"a brief lease": func(r *core.Request) { r.Lease = 300 * time.Millisecond },
}

func TestAnOperatorSeesTheCallsThatShareATicket(t *testing.T) {
	for name, edit := range terms {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				other := b.engine()
				a := b.requester(core.Exclusive)
				edit(&a.Request)
				h := a.acquire(b.T, b.e)
				waiters := b.waitersOf(other, 10)
				b.wantSeen("ten calls", promptly, "0 [10]")
				here := b.waitersOf(b.e, 4)
				b.wantSeen("four more", promptly, "4 [10]")
				b.stop(waiters[1:])
				b.stop(here[:1])
				b.wantSeen("four", promptly, "3 [1]")
				b.stop(waiters[:1])
				b.stop(here)
				b.wantSeen("none", promptly, "0 []")
				b.release(h)
				b.wantFree()
			})
		})
	}
}

func TestAnOperatorSeesTheReadersThatShareATicket(t *testing.T) {
	inBubble(t, func(b *bubble) {
		h := b.requester(core.Write).acquire(b.T, b.e)
		reads := func(r *core.Request) { r.Mode = core.Read }
		waiters := b.waitersOf(b.e, 10, reads)
		b.wantSeen("ten readers", promptly, "0 [10]")
		waiters = append(waiters, b.waitersOf(b.engine(), 5, reads)...)
		b.wantSeen("five more", promptly, "0 [10 5]")
		b.release(h)
		b.wantSeen("while they read", 0, "0 []")
		for _, c := range waiters {
			b.release(b.wantGranted("a reader", c))
		}
		b.wantFree()
	})
}

// longest returns since when the first call behind the holder has waited, in an operator's view.
func (b *bubble) longest() time.Time {
	b.Helper()
	for _, w := range b.status().Waiters {
		if w.Ticket == "" {
			return w.Since
		}
	}
	return time.Time{}
}

func (b *bubble) wantLongest(what string, after time.Duration, since time.Time) {
	b.Helper()
	time.Sleep(after)
	if got := b.longest(); got.Sub(since).Abs() > 10*time.Millisecond {
		b.Errorf("%s: the first is seen to wait since %v, want %v", what, got, since)
	}
}

func TestAnOperatorSeesSinceWhenTheFirstWaitsInTheHoldersProcess(t *testing.T) {
	for name, edit := range terms {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.warm()
				a := b.requester(core.Exclusive)
				edit(&a.Request)
				h := a.acquire(b.T, b.e)
				first := time.Now()
				one := b.waitersOf(b.e, 1, edit)
				time.Sleep(100 * time.Millisecond)
				second := time.Now()
				two := b.waitersOf(b.e, 1, edit)
				b.wantLongest("both wait", longWait+promptly, first)
				b.wantLongest("later", time.Minute/2, first)
				b.stop(one)
				b.wantLongest("the first has left", promptly, second)
				third := time.Now()
				more := b.waitersOf(b.e, 1, edit)
				b.release(h)
				h = b.wantGranted("the second", two[0])
				b.wantLongest("the third waits for the second", longWait+promptly, third)
				b.release(h)
				b.release(b.wantGranted("the third", more[0]))
				b.wantFree()
			})
		})
	}
}

// For a lock that is passed on quickly, the wait of the first caller is of no interest.
func TestBriefWaitsBehindOneAnotherAreNotReported(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		h := b.requester(core.Exclusive).acquire(b.T, b.e)
		waiting := b.waitersOf(b.e, 3)
		for range 100 {
			b.release(h)
			h = b.wantGranted("the next", waiting[0])
			waiting = append(waiting[1:], b.waitersOf(b.e, 1)...)
			time.Sleep(100 * time.Millisecond)
			if since := b.longest(); !since.IsZero() {
				b.Fatalf("the first is seen to wait since %v", since)
			}
		}
		b.stop(waiting)
		b.release(h)
	})
}

// The waiters behind the lock's next holder are visible immediately, and their number is right within a second.
func TestAnOperatorSeesTheWaitersWhenTheLockChangesHands(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm() // a process that subscribes when it waits polls immediately
		other := b.engine()
		h := b.requester(core.Exclusive).acquire(b.T, b.e)
		there := b.waitersOf(other, 6)
		b.wantSeen("six calls", promptly, "0 [6]")
		b.stop(there[4:]) // not yet reported
		here := b.waitersOf(b.e, 3)
		h.lease.passes = b.e.cfg.LocalPasses // it is the others' turn
		b.release(h)
		b.wantSeen("immediately", 0, "5 [3]")
		b.wantSeen("soon", promptly, "3 [3]")
		h = b.wantGranted("the next one", there[0])
		b.stop(there[1:4])
		b.release(h)
		b.wantSeen("immediately", 0, "2 []")
		h = b.wantGranted("the last process", here[0])
		b.stop(here[1:])
		b.wantSeen("soon", promptly, "0 []")
		b.release(h)
		b.wantFree()
	})
}

// Callers that come and go cost few commands, and callers that stay cost none.
func TestOnlyChangesAreReported(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		a := b.requester(core.Exclusive)
		a.Lease = time.Hour
		h := a.acquire(b.T, b.e)
		time.Sleep(10 * time.Second)
		b.wantSent("a hold without waiters", "acquire")
		waiters := b.waitersOf(b.e, 10)
		b.stop(waiters[8:])
		time.Sleep(10 * time.Minute)
		b.wantSent("calls that wait", "report_waiters", "report_waiters") // how many they are, and since when
		for range 100 {
			b.stop(b.waitersOf(b.e, 2))
			time.Sleep(100 * time.Millisecond)
		}
		if n := b.sent()["report_waiters"]; n > 0 {
			b.Errorf("calls that have left before the report: %d executions", n)
		}
		b.stop(waiters[4:])
		time.Sleep(promptly)
		b.wantSent("fewer calls", "report_waiters")
		var more []*calling
		for range 20 {
			more = append(more, b.waitersOf(b.e, 1)...)
			time.Sleep(100 * time.Millisecond)
		}
		if n := b.sent()["report_waiters"]; n < 2 || n > 4 {
			b.Errorf("in two seconds, in which more and more waited, %d runs", n)
		}
		b.stop(append(waiters, more...))
		b.release(h)
	})
}

// A hold that ends before an operator could look reports nothing.
func TestABriefWaitIsNotReported(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		h := b.requester(core.Exclusive).acquire(b.T, b.e)
		waiters := b.waitersOf(b.e, 10)
		time.Sleep(400 * time.Millisecond)
		b.release(h)
		for _, c := range waiters {
			b.release(b.wantGranted("the next one", c))
		}
		time.Sleep(promptly)
		if n := b.sent()["report_waiters"]; n > 0 {
			b.Errorf("%d runs", n)
		}
		b.wantFree()
	})
}

func TestAReportWithoutAnAnswerIsRepeated(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		a := b.requester(core.Exclusive)
		a.Lease = time.Hour
		h := a.acquire(b.T, b.e)
		b.wire.Silence()
		waiters := b.waitersOf(b.e, 10)
		time.Sleep(10 * time.Second)
		b.wire.Restore()
		b.wantSeen("after a silence", 2*promptly, "10 []") // go-redis has to dial first
		b.stop(waiters)
		b.wantSeen("none", promptly, "0 []")
		b.release(h)
	})
}
