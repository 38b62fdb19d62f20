package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
)

// lease is short, so that it is renewed every second.
const lease = 3 * time.Second

func short(r *core.Request) { r.Lease = lease }

func fixed(r *core.Request) { r.Lease, r.Fixed = lease, true }

// The deadline rises with the renewals at the other nodes, and the caller hears of no failure.
func TestAHoldOutlivesAMinorityOfItsNodes(t *testing.T) {
	for name, fail := range map[string]func(p *process, node int){
		"unreachable": func(p *process, node int) { p.wires[node].Cut() },
		"silent":      func(p *process, node int) { p.wires[node].Silence() },
		"loading":     func(p *process, node int) { p.b.refuse(node, "LOADING no") },
		"empty":       func(p *process, node int) { p.b.nodes[node].Mini.FlushAll() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(b *bubble) {
				p := b.process().warm()
				c := p.lock("item", short)
				fail(p, 1)
				for range 2 {
					before := c.hold.Deadline()
					time.Sleep(lease)
					if c.hold.Deadline().Sub(before) < lease/2 {
						b.Errorf("the deadline has moved by %v within %v", c.hold.Deadline().Sub(before), lease)
					}
				}
				if h := c.heard(); len(h.lost) > 0 || len(h.failures) > 0 || h.renewals < 4 {
					b.Errorf("the holder hears of losses %v, of failures %v, and of %d renewals", h.lost, h.failures, h.renewals)
				}
			})
		})
	}
}

// Nodes become unreachable one after the other. The deadline is the k-th latest one of the nodes: that of the node whose loss
// left too few. When it has passed, the hold is lost, and the nodes that are left are free.
func TestTheDeadlineIsTheKthLatestOfTheNodes(t *testing.T) {
	for _, tt := range []struct{ nodes, quorum int }{{3, 2}, {3, 3}, {5, 3}} {
		t.Run(fmt.Sprintf("%d of %d", tt.quorum, tt.nodes), func(t *testing.T) {
			inBubble(t, tt.nodes, func(b *bubble) {
				p := b.process(needs(tt.quorum)).warm()
				c := p.lock("item", short)
				missing := tt.nodes - tt.quorum + 1
				for i := range missing {
					time.Sleep(lease / 2)
					p.cut(i)
				}
				last := clock.Now()
				time.Sleep(lease / 2) // until the other nodes have renewed it
				until := c.hold.Deadline()
				if left := until.Sub(last); left > lease || left < lease/2 {
					b.Errorf("the deadline is %v after the last node was lost, with a lease of %v", left, lease)
				}
				time.Sleep(clock.Until(until) - time.Millisecond)
				if h := c.heard(); c.hold.Expired() || c.hold.Deadline() != until || len(h.lost) > 0 {
					b.Errorf("before its end: expired %t, deadline %v later, lost %v", c.hold.Expired(), c.hold.Deadline().Sub(until), h.lost)
				}
				time.Sleep(time.Millisecond)
				h := c.heard()
				if !c.hold.Expired() || len(h.lost) != 1 || !errors.Is(h.lost[0], core.ErrLost) {
					b.Fatalf("at its end: expired %t, lost %v, want ErrLost", c.hold.Expired(), h.lost)
				}
				if text := fmt.Sprintf("%d of %d nodes", tt.quorum-1, tt.nodes); !strings.Contains(h.lost[0].Error(), text) {
					b.Errorf("the loss is %v, want one that says %q", h.lost[0], text)
				}
				if len(h.failures) == 0 {
					b.Error("the holder hears of no renewal that has failed")
				}
				if held := b.holding("item"); len(held) > 0 && slices.Max(held) >= missing {
					b.Errorf("nodes %v are still held, of which %d can be reached", held, tt.nodes-missing)
				}
				if _, err := c.hold.Release(time.Second); !errors.Is(err, core.ErrLost) {
					b.Errorf("Release: %v, want ErrLost", err)
				}
			})
		})
	}
}

// They have granted the lock, and forget it.
func TestAHoldIsLostWithAMajorityOfItsNodes(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p := b.process().warm()
		c := p.lock("item", short)
		for i := range 2 {
			b.nodes[i].Mini.FlushAll()
			b.occupy("item", i)
		}
		time.Sleep(lease / 2) // the next renewal finds out
		if h := c.heard(); len(h.lost) != 1 || !errors.Is(h.lost[0], core.ErrLost) {
			b.Errorf("lost: %v", h.lost)
		}
		if held := b.holding("item"); !slices.Equal(held, upTo(2)) {
			b.Errorf("nodes %v are held, want those of strangers", held)
		}
	})
}

// Two nodes of three join it later, and have it for longer than the others.
func TestAFixedLeaseIsNotExtendedByNodesThatJoin(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p := b.process().warm()
		stranger := b.occupy("item", 2)[0]
		c := p.lock("item", func(r *core.Request) { r.Lease, r.Fixed = 10*time.Second, true })
		until := c.hold.Deadline()
		time.Sleep(time.Second)
		stranger.end()
		b.nodes[1].Mini.FlushAll()
		p.cut(1) // which shows that the server may be another one
		p.restore()
		time.Sleep(3 * time.Second)
		if !slices.Equal(b.holding("item"), upTo(3)) || c.hold.Deadline() != until {
			b.Errorf("nodes %v are held; the deadline has moved by %v", b.holding("item"), c.hold.Deadline().Sub(until))
		}
		time.Sleep(10 * time.Second)
		if h := c.heard(); len(h.lost) != 1 || !strings.Contains(h.lost[0].Error(), "fixed lease") {
			b.Errorf("lost: %v", h.lost)
		}
	})
}

// A node that does not answer is waited for, but not for long if the others have extended the lease.
func TestALeaseIsExtendedIfAQuorumExtendsIt(t *testing.T) {
	for cut := range 4 {
		t.Run(fmt.Sprintf("%d nodes silent", cut), func(t *testing.T) {
			inBubble(t, 3, func(b *bubble) {
				p := b.process().warm()
				c := p.lock("item", fixed)
				until := c.hold.Deadline()
				for i := range cut {
					p.wires[i].Silence()
				}
				ctx, cancel := context.WithTimeout(b.Context(), time.Second)
				defer cancel()
				start := time.Now()
				err := c.hold.Extend(ctx, 10*lease)
				took, moved := time.Since(start), c.hold.Deadline().Sub(until)
				switch {
				case cut == 0 && (err != nil || took > 0 || moved < 8*lease):
					b.Errorf("Extend: %v after %v; the deadline has moved by %v", err, took, moved)
				case cut == 1 && (err != nil || took != 50*time.Millisecond || moved < 8*lease):
					b.Errorf("Extend: %v after %v; the deadline has moved by %v", err, took, moved)
				case cut >= 2 && (err == nil || moved != 0):
					b.Errorf("Extend: %v after %v; the deadline has moved by %v", err, took, moved)
				}
			})
		})
	}
}
