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

// The first node does not answer, while an attempt has most of the others, and loses one as its token is raised there.
func TestAnAttemptThatComesToNothingDoesNotWaitForASilentNode(t *testing.T) {
	const limit = time.Second
	inBubble(t, 3, func(b *bubble) {
		p := b.process(redlock.WithNodeTimeout(limit)).warm()
		ahead := time.Now().Add(30 * time.Second).UnixMicro()
		if err := b.node(1).Mini.Set("lockmw:fence", strconv.FormatInt(ahead, 10)); err != nil {
			b.Fatal(err)
		}
		time.Sleep(limit / 2) // until the nodes are not probed any more, and have answered of late
		p.wires[0].Silence()
		raise := p.wires[2].HoldReply(strconv.FormatInt(ahead+1, 10))
		c := p.call(firstAt(0, 3))
		<-raise.Caught()
		time.Sleep(2 * limit)
		raise.Deliver()
		time.Sleep(10 * limit)
		if !c.returned() || c.err != nil {
			b.Fatalf("the lock is not had from the nodes that answer: %v", c.err)
		}
		usertest.Unlock(b, c.hold)
	})
}

// Others refuse before the first node has answered. The request is on its way to that queue, and is not sent there once more.
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
			if c.Concerns("{" + key + "}:done:") { // it asks, or gives up: the others ask for the place in the queue
				n++
			}
		}
		if n != 1 {
			b.Errorf("%d requests and cancels were sent to the first node", n)
		}
		usertest.Unlock(b, hold)
		synctest.Wait()
		if !waits.returned() || waits.err != nil {
			b.Fatalf("the lock is not handed over at once: %v", waits.err)
		}
		usertest.Unlock(b, waits.hold)
	})
}

// One node does not answer. The two others fall silent after they have granted the lock, for longer than the lease, and before
// the second one knows its token.
func TestAnAttemptThatLosesAllItsNodesBeginsAnew(t *testing.T) {
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

// One node refuses, one cannot be reached, and the third has not answered yet: its answer decides whether the lock is busy or
// too few nodes are there.
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
				time.Sleep(700 * time.Millisecond) // until the node that cannot be reached has failed
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

// A lateContext ends some time after its deadline, as one does whose timer is late on a busy machine.
type lateContext struct {
	context.Context
	deadline time.Time
}

func (c lateContext) Deadline() (time.Time, bool) { return c.deadline, true }

// An attempt may notice that the time of the last call is over before that call does.
func TestACallWhoseAttemptHasEndedWithItsDeadlineIsToldWhy(t *testing.T) {
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
