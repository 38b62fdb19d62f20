package redlock_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/redlock"
)

// The first node does not answer. An attempt has a majority with the others, and loses one of them while it raises the token there.
func TestAFailedAttemptDoesNotWaitForASilentNode(t *testing.T) {
	const limit = time.Second
	inBubble(t, 3, func(b *bubble) {
		p := b.process(redlock.WithNodeTimeout(limit)).warm()
		ahead := time.Now().Add(30 * time.Second).UnixMicro()
		if err := b.node(1).Mini.Set("lockmw:fence", strconv.FormatInt(ahead, 10)); err != nil {
			b.Fatal(err)
		}
		time.Sleep(limit / 2) // until the nodes are no longer probed and have answered lately
		p.wires[0].Silence()
		raise := p.wires[2].HoldReply(strconv.FormatInt(ahead+1, 10))
		c := p.call(firstAt(0, 3))
		<-raise.Caught()
		time.Sleep(2 * limit)
		raise.Deliver()
		time.Sleep(10 * limit)
		if !c.returned() || c.err != nil {
			b.Fatalf("the lock is not taken at the nodes that answer: %v", c.err)
		}
		usertest.Unlock(b, c.hold)
	})
}

// Other nodes refuse before the first node has answered. The request is already on its way to the first node's queue, and is not sent
// again.
func TestAFarFirstNodeIsAskedOnce(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p, q := b.process().warm(), b.process().warm()
		key := firstAt(0, 3)
		_, hold := lock(b.T, q, key)
		synctest.Wait() // until all nodes have it
		p.wires[0].Record()
		answer := p.wires[0].HoldReply("{" + key + "}")
		waits := p.call(key)
		<-answer.Caught()
		synctest.Wait() // until the others have refused
		answer.Deliver()
		synctest.Wait()
		n := 0
		for _, c := range p.wires[0].Sent() {
			if c.Concerns("{" + key + "}:done:") { // a request or a cancel; others ask for the place in the queue
				n++
			}
		}
		if n != 1 {
			b.Errorf("%d requests and cancels were sent to the first node", n)
		}
		usertest.Unlock(b, hold)
		synctest.Wait()
		if !waits.returned() || waits.err != nil {
			b.Fatalf("the lock is not handed over immediately: %v", waits.err)
		}
		usertest.Unlock(b, waits.hold)
	})
}

// One node does not answer. The two others stop answering after they have granted the lock, for longer than the lease, and before the
// second one has received the token.
func TestAnAttemptThatLosesAllItsNodesStartsAgain(t *testing.T) {
	const lease = 300 * time.Millisecond
	inBubble(t, 3, func(b *bubble) {
		p := b.process(redlock.WithNodeTimeout(time.Second)).warm()
		ahead := b.setCounter(1, 30*time.Second)
		p.wires[0].Silence()
		raise := p.wires[2].HoldReply(strconv.FormatInt(ahead+1, 10))
		c := p.call(firstAt(1, 3), lockmw.WithLease(lease))
		<-raise.Caught()
		for _, w := range p.wires {
			w.Silence()
		}
		time.Sleep(3 * lease)
		for _, w := range p.wires {
			w.Restore()
		}
		raise.Deliver()
		<-c.done
		if c.err != nil {
			b.Fatalf("Lock: %v", c.err)
		}
		usertest.Unlock(b, c.hold)
	})
}

// One node refuses, one is unreachable, and the third has not answered yet. Its answer decides whether the lock is busy or too few
// nodes are available.
func TestATryWaitsForTheAnswerThatTellsBusyFromUnavailable(t *testing.T) {
	for name, answers := range map[string]bool{"it answers": true, "it does not": false} {
		inBubble(t, 3, func(b *bubble) {
			p, q := b.process(redlock.WithNodeTimeout(time.Second)).warm(), b.process().warm()
			_, held := lock(b.T, q, "item")
			synctest.Wait() // until all nodes have it
			late := p.wires[2].HoldReply("{item}")
			p.wires[0].Cut()
			var err error
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _, err = p.TryLock(b.Context(), "item")
			}()
			<-late.Caught()
			want := lockmw.ErrUnavailable
			if answers {
				time.Sleep(700 * time.Millisecond) // until the unreachable node has failed
				late.Deliver()
				want = lockmw.ErrBusy
			}
			<-done
			if !errors.Is(err, want) {
				b.Errorf("%s: TryLock: %v, want %v", name, err, want)
			}
			late.Deliver()
			usertest.Unlock(b, held)
		})
	}
}

// A lateContext ends some time after its deadline, like a context whose timer is late on a busy machine.
type lateContext struct {
	context.Context
	deadline time.Time
}

func (c lateContext) Deadline() (time.Time, bool) { return c.deadline, true }

// An attempt may notice before the last call that the call's deadline has passed.
func TestACallThatTimesOutWithItsAttemptReturnsTheReason(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p := b.process()
		for _, w := range p.wires {
			w.Cut()
		}
		ctx, cancel := context.WithCancel(b.Context())
		time.AfterFunc(5*time.Second, cancel)
		_, _, err := p.Lock(lateContext{ctx, time.Now().Add(time.Second)}, "item")
		if !errors.Is(err, lockmw.ErrUnavailable) || errors.Is(err, lockmw.ErrBusy) || !errors.Is(err, context.Canceled) {
			b.Errorf("Lock: %v, want ErrUnavailable and the context's error", err)
		}
	})
}
