package redlock_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// A node that does not answer a release delays no call, because enough other nodes answer.
func TestASilentNodeDoesNotDelayTheNextCallOfItsProcess(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p := b.process().warm()
		_, hold := lock(b.T, p, "item")
		synctest.Wait() // until all nodes have it
		p.wires[1].Silence()
		usertest.Unlock(b, hold)
		start := time.Now()
		_, hold, err := p.TryLock(b.Context(), "item")
		if err != nil {
			b.Fatalf("a try after the release: %v after %v", err, time.Since(start))
		}
		if took := time.Since(start); took > 600*time.Millisecond { // a node's timeout is 500 ms
			b.Errorf("a try after the release took %v", took)
		}
		usertest.Unlock(b, hold)
	})
}

// scripts counts the scripts for key that were sent on the wire since its Record.
func scripts(w *redistest.Wire, key string) (n int) {
	for _, c := range w.Sent() {
		if c.IsScript() && c.Concerns("{"+key+"}") {
			n++
		}
	}
	return n
}

// A call that waits at the first node asks the others as soon as the first is free. So the first node is released after the others.
func TestTheNodeInWhoseQueueOthersWaitIsReleasedLast(t *testing.T) {
	for first := range 3 {
		inBubble(t, 3, func(b *bubble) {
			p, q := b.process().warm(), b.process().warm()
			key := firstAt(uint32(first), 3)
			_, hold := lock(b.T, p, key, lockmw.WithLease(3*time.Second))
			waits := q.call(key)
			time.Sleep(2 * time.Second) // until the holder has learnt of it by a renewal
			var held []*redistest.Fault
			for i, w := range p.wires {
				w.Record()
				if i != first {
					held = append(held, w.HoldReply("{"+key+"}"))
				}
			}
			unlocked := make(chan error, 1)
			go func() { unlocked <- hold.Unlock() }()
			for _, f := range held {
				<-f.Caught()
				synctest.Wait()
				if n := scripts(p.wires[first], key); n > 0 || waits.returned() {
					b.Errorf("the first node is released before another one has confirmed: %d commands", n)
				}
				f.Deliver()
			}
			if err := <-unlocked; err != nil {
				b.Errorf("Unlock: %v", err)
			}
			synctest.Wait()
			if n := scripts(p.wires[first], key); n != 1 {
				b.Errorf("the first node was sent %d commands", n)
			}
			if !waits.returned() || waits.err != nil {
				b.Fatalf("the lock is not handed over immediately: %v", waits.err)
			}
			usertest.Unlock(b, waits.hold)
		})
	}
}

// If no call waits, all nodes are released together.
func TestNodesAreReleasedTogetherIfNoCallWaits(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p := b.process().warm()
		_, hold := lock(b.T, p, "item")
		synctest.Wait()
		for _, w := range p.wires {
			w.Record()
			defer w.HoldReply("{item}").Deliver()
		}
		go func() { _ = hold.Unlock() }()
		synctest.Wait()
		for i, w := range p.wires {
			if n := scripts(w, "item"); n != 1 {
				b.Errorf("node %d was sent %d commands", i, n)
			}
		}
	})
}

// Work that has not begun keeps no node taken. Two processes that each get some nodes would otherwise lock out everybody for that time.
func TestAnAttemptThatFailsKeepsNoNodeTakenForAMinimumHold(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p := b.process().warm()
		for i := 1; i < 3; i++ {
			_, held := usertest.Lock(b, b.Context(), usertest.Client(b.T, b.node(i)), "item")
			defer usertest.Unlock(b, held)
		}
		if _, _, err := p.TryLock(b.Context(), "item", lockmw.WithMinHold(time.Minute)); !errors.Is(err, lockmw.ErrBusy) {
			b.Errorf("%v, want ErrBusy", err)
		}
		time.Sleep(time.Second)
		if b.node(0).Mini.Exists("lockmw:{item}") {
			b.Error("the free node is taken")
		}
	})
}

func TestAMinimumHoldKeepsAMajorityTaken(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p, q := b.process().warm(), b.process()
		_, hold := lock(b.T, p, "item", lockmw.WithMinHold(time.Minute))
		usertest.Unlock(b, hold)
		time.Sleep(50 * time.Second)
		if _, _, err := q.TryLock(b.Context(), "item"); !errors.Is(err, lockmw.ErrBusy) {
			b.Errorf("before its end: %v, want ErrBusy", err)
		}
		time.Sleep(20 * time.Second)
		_, hold = lock(b.T, q, "item")
		usertest.Unlock(b, hold)
	})
}
