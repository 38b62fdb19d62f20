package quorum_test

import (
	"slices"
	"testing"
	"time"
)

// Calls do not wait for a node that is known to be unreachable, and leave it out. It is asked whether it is back.
func TestAnAbsentNodeIsLeftOutUntilItReturns(t *testing.T) {
	for name, away := range map[string]func(p *process){
		"silent":  func(p *process) { p.wires[1].Silence() },
		"loading": func(p *process) { p.b.refuse(1, "LOADING no") },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(b *bubble) {
				p := b.process().warm()
				away(p)
				first := p.lock("item")
				_, _ = first.hold.Release(2 * limit)
				time.Sleep(2 * time.Second) // until the node is known to be away
				p.record()
				for range 3 {
					c := p.lock("item")
					if c.took > 0 {
						b.Errorf("a call waits for %v", c.took)
					}
					b.release(c)
				}
				if n := p.scripts(asksItem); n[0] < 3 || n[1] != 0 || n[2] < 3 {
					b.Errorf("the nodes were asked %v times, want none at the one that is away", n)
				}
				b.refuse(1, "")
				p.restore()
				time.Sleep(2 * time.Second)
				c := p.lock("item")
				if held := b.holding("item"); !slices.Equal(held, upTo(3)) {
					b.Errorf("nodes %v are held when all are back", held)
				}
				b.release(c)
			})
		})
	}
}

// Otherwise thousands of idle processes would ask servers that are away.
func TestNodesAreProbedOnlyWhileThatMatters(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p := b.process().warm()
		probes := func() int {
			p.record()
			time.Sleep(10 * time.Second)
			return p.scripts()[0]
		}
		time.Sleep(time.Second)
		if n := probes(); n > 0 {
			b.Errorf("a node was sent %d commands though there is nothing to do", n)
		}
		b.refuse(0, "OOM no")
		b.release(p.lock("item"))
		if n := probes(); n < 39 || n > 41 { // one each 250 ms
			b.Errorf("a node that is away was sent %d commands within 10 s", n)
		}
		b.refuse(0, "")
		time.Sleep(time.Second)
		if n := probes(); n > 0 {
			b.Errorf("a node that is back was sent %d commands", n)
		}
	})
}

// However long too few nodes were there: a call without a limit waits for them.
func TestAWaitingCallGetsTheLockWhenEnoughNodesReturn(t *testing.T) {
	for _, name := range []string{"unreachable", "silent", "loading"} { // otherwise somebody has to mend that
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(b *bubble) {
				p := b.process().warm()
				faults[name](p, 0)
				faults[name](p, 2)
				c := p.call("item")
				time.Sleep(3 * time.Second)
				if c.returned() || slices.Contains(b.holding("item"), 1) {
					b.Errorf("the call has returned: %t, %v; it holds nodes %v", c.returned(), c.err, b.holding("item"))
				}
				p.wires[2].Restore()
				b.refuse(2, "")
				time.Sleep(time.Second)
				if !c.returned() || c.err != nil {
					b.Fatalf("the call does not get the lock from two nodes: returned %t, %v", c.returned(), c.err)
				}
				b.release(c)
			})
		})
	}
}

// A lock that was taken while a node was away is held there, too, when it is back: then it may take the place of another node.
func TestANodeThatReturnsJoinsAHold(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p := b.process().warm()
		b.setCounter(0, 30*time.Second)
		p.cut(2)
		c := p.lock("item", short)
		time.Sleep(2 * time.Second) // until the request there has failed
		p.restore()
		time.Sleep(2 * time.Second)
		if !slices.Equal(b.holding("item"), upTo(3)) || b.counter(2) < c.hold.Token() || b.token(2, "item") != c.hold.Token() {
			b.Errorf("nodes %v are held; the last one's counter is %d, and it shows %d; the token is %d",
				b.holding("item"), b.counter(2), b.token(2, "item"), c.hold.Token())
		}
		p.cut(0)
		time.Sleep(3 * lease)
		if h := c.heard(); c.hold.Expired() || len(h.lost) > 0 {
			b.Errorf("the hold is lost: %v", h.lost)
		}
	})
}
