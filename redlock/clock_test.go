package redlock_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/test/recording"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/redlock"
)

// clocks gives each node its own clock, which is ahead by the given time.
func (b *bubble) clocks(ahead ...time.Duration) (all []*redistest.Clock) {
	for i, d := range ahead {
		c := b.node(i).NewClock(b)
		c.Step(d)
		all = append(all, c)
	}
	return all
}

// The clocks differ, and the clocks of two nodes jump by more than a lease. With a quorum of four, two nodes may lose grants.
func TestClocksThatDifferAndJump(t *testing.T) {
	const lease = 3 * time.Second
	inBubble(t, 5, func(b *bubble) {
		clocks := b.clocks(0, 20*time.Second, -20*time.Second, 10*time.Second, -10*time.Second)
		rec := recording.NewRecorder(time.Second)
		ctx, cancel := context.WithCancel(b.Context())
		var wg sync.WaitGroup
		turns := make([]atomic.Int32, 2)
		for i := range turns {
			p := b.process(redlock.WithQuorum(4), lockmw.WithLease(lease))
			p.repeat(ctx, &wg, 2, func(ctx context.Context) {
				_, held, err := rec.Lock(ctx, p, "item")
				if err != nil {
					return // the end
				}
				time.Sleep(rand.N(100 * time.Millisecond))
				turns[i].Add(1)
				_ = held.Unlock() // a node whose clock has ended the grant does not confirm
			})
		}
		var off [2]time.Duration // the offsets of the first two clocks
		few := func() bool { return min(turns[0].Load(), turns[1].Load()) < 2 }
		for n := 0; n < 12 || few() && n < 240; n++ { // 240 steps take a minute
			time.Sleep(rand.N(500 * time.Millisecond))
			i, to := rand.IntN(len(off)), rand.N(8*lease)-4*lease
			clocks[i].Step(to - off[i])
			off[i] = to
		}
		cancel()
		wg.Wait()
		for _, v := range rec.Violations() {
			b.Error(v)
		}
		if few() {
			b.Errorf("%d and %d turns", turns[0].Load(), turns[1].Load())
		}
	})
}

// steppedForward steps the clocks of some nodes of three forward by more than a lease. It reports whether another call gets the lock
// while the holder still has it.
func steppedForward(t *testing.T, nodes ...int) (both bool) {
	t.Helper()
	inBubble(t, 3, func(b *bubble) {
		const lease = 10 * time.Second
		clocks := b.clocks(0, 0, 0)
		p, q := b.process().warm(), b.process().warm()
		key := firstAt(uint32(nodes[0]), 3) // the other process waits there
		ctx, hold := lock(b.T, p, key, lockmw.WithFixedLease(lease))
		synctest.Wait() // until all nodes have it
		next := q.call(key)
		for _, i := range nodes {
			clocks[i].Step(2 * lease)
		}
		<-next.done
		if next.err != nil {
			b.Fatal(next.err)
		}
		if both = ctx.Err() == nil; next.hold.Token() <= hold.Token() {
			b.Errorf("token %d after %d", next.hold.Token(), hold.Token())
		}
		_ = next.hold.Unlock()
		_ = hold.Unlock()
	})
	return both
}

func TestAClockThatIsSteppedForwardLosesGrants(t *testing.T) {
	for node := range 3 {
		if steppedForward(t, node) {
			t.Errorf("two hold the lock though only node %d has lost its grant", node)
		}
	}
	if !steppedForward(t, 0, 2) {
		t.Error("no two holders are seen: docs/redlock.md could promise more")
	}
}

// A holder is gone, and the clock of one node is set back by an hour, so its grant lasts an hour longer. Calls that wait at another
// node do not wait for it.
func TestAClockThatIsSetBackDelaysOnlyCallsThatWaitThere(t *testing.T) {
	const lease = 3 * time.Second
	for first := range 3 {
		inBubble(t, 3, func(b *bubble) {
			clocks := b.clocks(0, 0, 0)
			p, q := b.process().warm(), b.process().warm()
			key := firstAt(uint32(first), 3)
			_, hold := lock(b.T, p, key, lockmw.WithLease(lease))
			synctest.Wait() // until all nodes have it
			p.reaches()
			clocks[1].Step(-time.Hour)
			start := time.Now()
			if first == 1 {
				time.Sleep(lease + 100*time.Millisecond) // the clocks of embedded servers move in steps
				_, next, err := q.TryLock(b.Context(), key)
				if err != nil {
					b.Fatalf("a try: %v", err)
				}
				_ = next.Unlock()
				return
			}
			next := q.call(key)
			<-next.done
			if took := time.Since(start); next.err != nil || took > lease+time.Second {
				b.Fatalf("a call that waits at node %d: %v after %v", first, next.err, took)
			}
			_ = next.hold.Unlock()
			_ = hold.Unlock()
		})
	}
}

// Answers that grant a lock arrive when its lease has expired, or nearly. The call does not use them.
func TestAnswersThatAreLateByALeaseDoNotCount(t *testing.T) {
	const lease = 200 * time.Millisecond
	for _, late := range []int{2, 3} { // nodes of three
		inBubble(t, 3, func(b *bubble) {
			p := b.process(redlock.WithNodeTimeout(time.Second)).warm()
			var held []*redistest.Fault
			for i := range late {
				held = append(held, p.wires[i].HoldReply("{item}"))
			}
			c := p.call("item", lockmw.WithLease(lease))
			time.Sleep(lease + lease/2)
			if c.returned() {
				b.Fatalf("the lock is taken before a majority has answered: %v", c.err)
			}
			for _, f := range held {
				f.Deliver()
			}
			<-c.done
			if c.err != nil {
				b.Fatal(c.err)
			}
			if left := time.Until(c.hold.Deadline()); left < lease/2 || left > lease {
				b.Errorf("the hold has %v, of a lease of %v", left, lease)
			}
			usertest.Unlock(b, c.hold)
		})
	}
}

// A request reaches its node after its lease would have expired and its caller has unlocked. It takes no lock.
func TestARequestThatIsLateByALeaseTakesNoLock(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p, q := b.process().warm(), b.process().warm()
		late := p.wires[1].Withhold("{item}")
		_, hold := lock(b.T, p, "item", lockmw.WithLease(3*time.Second))
		<-late.Caught()
		usertest.Unlock(b, hold)
		time.Sleep(10 * time.Second)
		if answer, err := late.Send(b.Context()); err != nil {
			b.Fatalf("%q, %v", answer, err)
		}
		if b.isHeld(1, "item") {
			b.Error("a node has granted the lock without a caller")
		}
		_, hold, err := q.TryLock(b.Context(), "item")
		if err != nil {
			b.Fatal(err)
		}
		usertest.Unlock(b, hold)
	})
}
