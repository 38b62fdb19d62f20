package quorum_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/quorum"
)

// keys are such that calls for each of them wait at another one of three nodes.
func (b *bubble) keys() (keys [3]string) {
	for i := 0; slices.Contains(keys[:], ""); i++ {
		key := fmt.Sprint("item:", i)
		keys[b.order(key)[0]] = key
	}
	return keys
}

// All processes wait in one queue, which is at another node for another key.
func TestCallsForAKeyQueueAtOneNode(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p, q, r := b.process().warm(), b.process().warm(), b.process().warm()
		for node, key := range b.keys() {
			held := p.lock(key)
			waits := []*calling{q.call(key), r.call(key)}
			if at := b.queueing(key); !slices.Equal(at, []int{node}) {
				b.Errorf("calls for %s queue at nodes %v, want node %d", key, at, node)
			}
			for range waits {
				b.release(held)
				synctest.Wait()
				i := slices.IndexFunc(waits, (*calling).returned)
				if i < 0 || waits[i].err != nil {
					b.Fatal("nobody gets the lock")
				}
				held = waits[i]
				waits = slices.Delete(waits, i, i+1)
			}
			b.release(held)
		}
	})
}

// If the first node of the order is unreachable, it is the next one, unless the quorum is all nodes.
func TestCallsQueueAtTheFirstNodeThatIsThere(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p, order := b.process().warm(), b.order("item")
		b.occupy("item", order[1:]...)
		p.cut(order[0])
		c := p.call("item")
		time.Sleep(time.Second)
		if at := b.queueing("item"); !slices.Equal(at, order[1:2]) {
			b.Errorf("the call queues at nodes %v, want node %d", at, order[1])
		}
		c.stop()
		c.await()
	})
}

// Strangers have two nodes of three, or all. A call that waits has the lock as soon as the node at which it queues and enough
// others are free, in whichever order.
func TestAWaitingCallGetsTheLockWhenAQuorumIsFree(t *testing.T) {
	for _, tt := range []struct {
		busy []int // nodes, in the order of the key
		ends []int // of which these are freed one after the other
	}{
		{busy: []int{0, 1}, ends: []int{0}},
		{busy: []int{0, 2}, ends: []int{0}},
		{busy: []int{0, 1, 2}, ends: []int{1, 0}},
		{busy: []int{0, 1, 2}, ends: []int{2, 0}},
		{busy: []int{0, 1, 2}, ends: []int{0, 1}},
	} {
		t.Run(fmt.Sprintf("busy %v, freed %v", tt.busy, tt.ends), func(t *testing.T) {
			inBubble(t, 3, func(b *bubble) {
				p, order := b.process().warm(), b.order("item")
				strangers := make(map[int]*occupation)
				for _, i := range tt.busy {
					strangers[i] = b.occupy("item", order[i])[0]
				}
				c := p.call("item")
				for i, end := range tt.ends {
					time.Sleep(10 * time.Millisecond)
					if c.returned() {
						b.Fatalf("the call has returned though %d of %d nodes are busy: %v", len(tt.busy)-i, 3, c.err)
					}
					strangers[end].end()
				}
				if !c.returned() || c.err != nil {
					b.Fatalf("the call does not get the lock immediately: returned %t, %v", c.returned(), c.err)
				}
				b.release(c)
			})
		})
	}
}

// Others may wait for the first node, and have the nodes that refuse.
func TestACallKeepsTheFirstNodeForAMomentOnlyIfOthersRefuse(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p, order := b.process().warm(), b.order("item")
		b.occupy("item", order[1:]...)
		c := p.call("item")
		time.Sleep(190 * time.Millisecond)
		if !slices.Contains(b.holding("item"), order[0]) || !slices.Equal(b.queueing("item"), order[1:2]) {
			b.Errorf("nodes %v are held, and there are queues at %v; the order is %v", b.holding("item"), b.queueing("item"), order)
		}
		time.Sleep(11 * time.Millisecond)
		if slices.Contains(b.holding("item"), order[0]) || len(b.queueing("item")) > 0 {
			b.Errorf("after 200 ms nodes %v are held and there are queues at %v", b.holding("item"), b.queueing("item"))
		}
		time.Sleep(20 * time.Millisecond)
		if !slices.Contains(b.holding("item"), order[0]) {
			b.Error("the call does not try again")
		}
		c.stop()
		c.await()
	})
}

// A caller without a majority never queues, so that it cannot block one that has it.
func TestACallThatLosesItsMajorityLeavesTheQueue(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p, q, order := b.process().warm(), b.process().warm(), b.order("item")
		held := p.lock("item")
		c := q.call("item")
		time.Sleep(time.Second)
		if at := b.queueing("item"); !slices.Equal(at, order[:1]) {
			b.Errorf("the call queues at nodes %v, want node %d", at, order[0])
		}
		for _, i := range order[1:] {
			q.wires[i].Swallow()
		}
		time.Sleep(2 * time.Second)
		if at := b.queueing("item"); len(at) > 0 || c.returned() {
			b.Errorf("the call queues at nodes %v; it has returned: %t, %v", at, c.returned(), c.err)
		}
		q.restore()
		time.Sleep(2 * time.Second)
		b.release(held)
		synctest.Wait()
		if !c.returned() || c.err != nil {
			b.Fatalf("the call does not get the lock when it reaches the nodes again: %v", c.err)
		}
		b.release(c)
	})
}

func TestACallThatWaitsLearnsOfTheHolder(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p, q := b.process().warm(), b.process().warm()
		held := p.lock("item", func(r *core.Request) { r.Label = "order-7" })
		for name, c := range map[string]*calling{"the same process": p.call("item"), "another process": q.call("item")} {
			if h := c.heard(); len(h.contended) != 1 || len(h.contended[0].Holders) != 1 || h.contended[0].Holders[0].Label != "order-7" {
				b.Errorf("%s: the call hears %+v", name, h.contended)
			}
			defer c.stop()
		}
		if h := held.heard(); len(h.contended) > 0 {
			b.Errorf("the holder hears %+v", h.contended)
		}
	})
}

func TestAWaitThatIsOverSaysWhy(t *testing.T) {
	const wait = 3 * time.Second
	for name, tt := range map[string]struct {
		disturb func(b *bubble, p *process)
		want    error
	}{
		"busy":        {func(b *bubble, p *process) { b.process().lock("item") }, core.ErrBusy},
		"unavailable": {func(b *bubble, p *process) { p.cut(0, 1) }, core.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(b *bubble) {
				p := b.process().warm()
				tt.disturb(b, p)
				c := p.call("item", func(r *core.Request) { r.Wait = wait })
				c.await()
				if !errors.Is(c.err, tt.want) || c.took != wait {
					b.Errorf("Acquire: %v after %v, want %v after %v", c.err, c.took, tt.want, wait)
				}
				p.restore()
				time.Sleep(5 * time.Second)
				if at := b.queueing("item"); len(at) > 0 {
					b.Errorf("there are queues at nodes %v", at)
				}
			})
		})
	}
}

func TestMoreCallsThanMayWaitAreRefused(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p := b.process(needs(3), func(cfg *quorum.Config) { cfg.Tokens = false }).warm()
		p.lock("item")
		most := func(r *core.Request) { r.MaxWaiters = 2 }
		waits := []*calling{p.call("item", most), p.call("item", most)}
		if c := p.call("item", most); !c.returned() || !errors.Is(c.err, core.ErrTooManyWaiters) {
			b.Errorf("the third call: returned %t, %v, want ErrTooManyWaiters", c.returned(), c.err)
		}
		for _, c := range waits {
			c.stop()
			c.await()
		}
	})
}
