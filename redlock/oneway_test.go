package redlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// oneWays are the ways to cut off a process from a node in one direction only.
var oneWays = []struct {
	name string
	cut  func(*redistest.Wire)
}{
	{"the node is not heard", (*redistest.Wire).Silence},
	{"the node does not hear", (*redistest.Wire).Deafen},
}

const oneWayLease = 3 * time.Second

// inOneWayBubbles runs test for each way, with two processes, and with each node as the node where calls for the key wait.
func inOneWayBubbles(t *testing.T, test func(b *bubble, cut func(*redistest.Wire), p, q *process, key string)) {
	t.Helper()
	for _, way := range oneWays {
		for first := range uint32(3) {
			t.Run(way.name, func(t *testing.T) {
				inBubble(t, 3, func(b *bubble) {
					p, q := b.process(lockmw.WithLease(oneWayLease)).warm(), b.process(lockmw.WithLease(oneWayLease)).warm()
					test(b, way.cut, p, q, firstAt(first, 3))
				})
			})
		}
	}
}

// within waits until c has returned, and fails if that takes longer than d.
func (c *calling) within(b *bubble, d time.Duration, what string) {
	b.Helper()
	select {
	case <-c.done:
	case <-time.After(d):
		b.Fatalf("%s: the call has not returned within %v", what, d)
	}
	if c.err != nil {
		b.Fatalf("%s: %v", what, c.err)
	}
}

// wantFree checks that no node has a key.
func (b *bubble) wantFree(key string) {
	b.Helper()
	synctest.Wait()
	for i := range b.nodes.Servers() {
		if b.isHeld(i, key) {
			b.Errorf("node %d still has a grant of %s", i, key)
		}
	}
}

// One node of three is reached one way. Holds continue, new locks are taken, and the node's grants end with the lease.
func TestCallsContinueIfAMinorityIsReachedOneWay(t *testing.T) {
	inOneWayBubbles(t, func(b *bubble, cut func(*redistest.Wire), p, q *process, key string) {
		ctx, hold := lock(b.T, p, key)
		synctest.Wait() // until all nodes have it
		next := q.call(key)
		cut(p.wires[0])
		time.Sleep(5 * oneWayLease)
		if ctx.Err() != nil || next.returned() {
			b.Fatalf("the hold has ended: %v; another holds the lock: %t", context.Cause(ctx), next.returned())
		}
		start := time.Now()
		_, other := lock(b.T, p, "other")
		if took := time.Since(start); took > time.Second { // at most the node's timeout
			b.Errorf("another lock is taken after %v", took)
		}
		usertest.Unlock(b, other)
		usertest.Unlock(b, hold)
		next.within(b, oneWayLease+time.Second, "the waiting call")
		if next.hold.Token() <= hold.Token() {
			b.Errorf("token %d after %d", next.hold.Token(), hold.Token())
		}
		usertest.Unlock(b, next.hold)
		time.Sleep(oneWayLease)
		b.wantFree(key)
		b.wantFree("other")
	})
}

// Two nodes of three are reached one way. The hold ends at its deadline, and no other call gets the lock earlier.
func TestAHoldThatReachesAMajorityOneWayEndsAtItsDeadline(t *testing.T) {
	inOneWayBubbles(t, func(b *bubble, cut func(*redistest.Wire), p, q *process, key string) {
		ctx, hold := lock(b.T, p, key)
		synctest.Wait() // until all nodes have it
		asked := time.Now()
		next := q.call(key)
		time.Sleep(2 * oneWayLease) // the hold is renewed
		cut(p.wires[1])
		time.Sleep(oneWayLease / 2) // so that their deadlines differ
		if ctx.Err() != nil {
			b.Fatalf("two nodes of three are not enough: %v", context.Cause(ctx))
		}
		cut(p.wires[2])
		parted, deadline := time.Now(), hold.Deadline()
		for ctx.Err() == nil && time.Since(parted) <= oneWayLease {
			deadline = hold.Deadline()
			time.Sleep(10 * time.Millisecond)
		}
		if ctx.Err() == nil || deadline.After(time.Now()) { // the deadline went by the one node that is left
			b.Errorf("%v after the loss of a majority the hold has %v left", time.Since(parted), time.Until(deadline))
		}
		if cause := context.Cause(ctx); !errors.Is(cause, lockmw.ErrLost) {
			b.Errorf("the cause is %v, want ErrLost", cause)
		}
		next.within(b, oneWayLease, "the waiting call")
		if had := asked.Add(next.took); had.Before(deadline) {
			b.Errorf("two hold the lock: the next one %v before the deadline", deadline.Sub(had))
		}
		for range 3 { // the nodes may receive and grant these
			if _, _, err := p.TryLock(b.Context(), key); !errors.Is(err, lockmw.ErrUnavailable) && !errors.Is(err, lockmw.ErrBusy) {
				b.Errorf("TryLock by the process that hears one node: %v", err)
			}
		}
		if _, _, err := p.Lock(b.Context(), key, lockmw.WithWait(oneWayLease)); !errors.Is(err, lockmw.ErrUnavailable) {
			b.Errorf("Lock by the process that hears one node: %v, want ErrUnavailable", err)
		}
		if next.ctx.Err() != nil || next.hold.Token() <= hold.Token() {
			b.Errorf("the next one: %v, token %d after %d", context.Cause(next.ctx), next.hold.Token(), hold.Token())
		}
		usertest.Unlock(b, next.hold)
		q.call(key).within(b, oneWayLease+time.Second, "a call next to failed ones")
		p.reaches(0, 1, 2)
		if err := hold.Unlock(); !errors.Is(err, lockmw.ErrLost) {
			b.Errorf("Unlock of the lost hold: %v, want ErrLost", err)
		}
	})
}

// Two nodes grant a lock, but their answers are lost. No call uses these grants. They end with the lease at the latest, like those of
// a dead process, because taking them back needs a connection on which the node answers.
func TestGrantsWhoseAnswersAreLostEndWithTheirLease(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p, q := b.process(lockmw.WithLease(oneWayLease)).warm(), b.process(lockmw.WithLease(oneWayLease)).warm()
		p.wires[1].Silence()
		p.wires[2].Silence()
		if _, _, err := p.TryLock(b.Context(), "item"); !errors.Is(err, lockmw.ErrUnavailable) {
			b.Errorf("TryLock: %v, want ErrUnavailable", err)
		}
		if !b.isHeld(1, "item") || !b.isHeld(2, "item") {
			b.Error("the nodes have not granted the lock, so the test proves nothing")
		}
		if _, _, err := p.Lock(b.Context(), "item", lockmw.WithWait(2*time.Second)); !errors.Is(err, lockmw.ErrUnavailable) {
			b.Errorf("Lock: %v, want ErrUnavailable", err)
		}
		next := q.call("item")
		next.within(b, oneWayLease+time.Second, "a call that reaches all nodes")
		usertest.Unlock(b, next.hold)
		time.Sleep(oneWayLease)
		b.wantFree("item")
	})
}

// A call waits at a node that can then be reached only one way. It gets the lock in time, from the other nodes.
func TestAWaiterAtANodeThatIsReachedOneWayGetsTheLock(t *testing.T) {
	inOneWayBubbles(t, func(b *bubble, cut func(*redistest.Wire), p, q *process, key string) {
		_, hold := lock(b.T, q, key)
		synctest.Wait() // until all nodes have it
		waits := p.call(key)
		first := 0
		for key != firstAt(uint32(first), 3) {
			first++
		}
		cut(p.wires[first])
		usertest.Unlock(b, hold)
		waits.within(b, oneWayLease+2*time.Second, "the waiting call")
		time.Sleep(3 * oneWayLease)
		if waits.ctx.Err() != nil {
			b.Errorf("the hold has ended: %v", context.Cause(waits.ctx))
		}
		if _, _, err := q.TryLock(b.Context(), key); !errors.Is(err, lockmw.ErrBusy) {
			b.Errorf("a try of another: %v, want ErrBusy", err)
		}
		usertest.Unlock(b, waits.hold)
		time.Sleep(oneWayLease)
		b.wantFree(key)
	})
}
