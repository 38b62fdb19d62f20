package quorum_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/quorum"
)

func needs(k int) func(*quorum.Config) { return func(cfg *quorum.Config) { cfg.Quorum = k } }

// upTo returns the numbers of the first n nodes.
func upTo(n int) (nodes []int) {
	for i := range n {
		nodes = append(nodes, i)
	}
	return nodes
}

// A call that is refused by too many nodes keeps none of the others.
func TestALockIsHeldIfAQuorumOfNodesGrantsIt(t *testing.T) {
	for _, tt := range []struct {
		nodes, quorum, busy int
		held                bool
	}{
		{nodes: 1, quorum: 1, busy: 0, held: true},
		{nodes: 1, quorum: 1, busy: 1, held: false},
		{nodes: 3, quorum: 2, busy: 0, held: true},
		{nodes: 3, quorum: 2, busy: 1, held: true},
		{nodes: 3, quorum: 2, busy: 2, held: false},
		{nodes: 3, quorum: 3, busy: 1, held: false},
		{nodes: 4, quorum: 3, busy: 1, held: true},
		{nodes: 4, quorum: 3, busy: 2, held: false},
		{nodes: 5, quorum: 3, busy: 2, held: true},
		{nodes: 5, quorum: 3, busy: 3, held: false},
		{nodes: 5, quorum: 4, busy: 2, held: false},
	} {
		t.Run(fmt.Sprintf("%d of %d, %d busy", tt.quorum, tt.nodes, tt.busy), func(t *testing.T) {
			inBubble(t, tt.nodes, func(b *bubble) {
				p := b.process(needs(tt.quorum))
				b.occupy("item", upTo(tt.busy)...)
				c := p.try("item")
				if tt.held {
					if c.err != nil || len(b.holding("item")) != tt.nodes {
						b.Errorf("Acquire: %v; nodes %v are held", c.err, b.holding("item"))
					}
					return
				}
				failure, _ := errors.AsType[*core.AcquireError](c.err)
				if failure == nil || !errors.Is(failure.Err, core.ErrBusy) || len(failure.Holders) != 1 || failure.Holders[0].Owner[0] != 'b' {
					b.Errorf("Acquire: %v, want ErrBusy with the holder", c.err)
				}
				if held := b.holding("item"); !slices.Equal(held, upTo(tt.busy)) {
					b.Errorf("nodes %v are held, want those of strangers only", held)
				}
			})
		})
	}
}

// faults keep a node from granting a lock although nobody holds it.
var faults = map[string]func(p *process, node int){
	"unreachable": func(p *process, node int) { p.wires[node].Cut() },
	"silent":      func(p *process, node int) { p.wires[node].Silence() },
	"loading":     func(p *process, node int) { p.b.refuse(node, "LOADING Redis is loading the dataset in memory") },
	"full": func(p *process, node int) {
		p.b.refuse(node, "OOM command not allowed when used memory > 'maxmemory'.")
	},
	"forbidden": func(p *process, node int) { p.b.refuse(node, "NOPERM this user has no permissions") },
}

func TestAMinorityThatFailsPreventsNoHold(t *testing.T) {
	for name, fail := range faults {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(b *bubble) {
				p := b.process().warm()
				fail(p, b.order("item")[0])
				c := p.lock("item")
				if c.took > 10*time.Millisecond {
					b.Errorf("the lock is held after %v", c.took)
				}
				if _, err := c.hold.Release(limit); err != nil {
					b.Errorf("Release: %v", err)
				}
			})
		})
	}
}

// The error says how many nodes are missing, and names them. The node that has granted the lock is free again.
func TestAMajorityThatFailsMakesALockUnavailable(t *testing.T) {
	for name, fail := range faults {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(b *bubble) {
				p := b.process().warm()
				fail(p, 0)
				fail(p, 2)
				c := p.try("item")
				if !errors.Is(c.err, core.ErrUnavailable) {
					b.Fatalf("Acquire: %v, want ErrUnavailable", c.err)
				}
				b.says(c.err, "1 of 3 nodes", "node 1 (", "node 3 (")
				if strings.Contains(c.err.Error(), "node 2 (") {
					b.Errorf("Acquire: %v names a node that answers", c.err)
				}
				if slices.Contains(b.holding("item"), 1) {
					b.Error("the node that answers is still held")
				}
			})
		})
	}
}

// says checks that an error has all of the texts.
func (b *bubble) says(err error, texts ...string) {
	b.Helper()
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			b.Errorf("Acquire: %v, want an error that says %q", err, text)
		}
	}
}

// Otherwise it may be by an attempt of others that comes to nothing.
func TestARefusalShowsThatALockIsBusyOnlyIfAQuorumCouldGrantIt(t *testing.T) {
	for _, tt := range []struct {
		busy, cut []int
		want      error
	}{
		{busy: []int{0}, cut: []int{1}, want: core.ErrBusy},
		{busy: []int{0, 1}, cut: []int{2}, want: core.ErrBusy},
		{busy: []int{0}, cut: []int{1, 2}, want: core.ErrUnavailable},
	} {
		t.Run(fmt.Sprintf("busy %v, cut %v", tt.busy, tt.cut), func(t *testing.T) {
			inBubble(t, 3, func(b *bubble) {
				p := b.process().warm()
				b.occupy("item", tt.busy...)
				p.cut(tt.cut...)
				if c := p.try("item"); !errors.Is(c.err, tt.want) {
					b.Errorf("Acquire: %v, want %v", c.err, tt.want)
				}
			})
		})
	}
}

// Waiting does not help against what somebody has to mend, so that a call that could wait does not.
func TestAFinalErrorAtAMajorityEndsAWaitImmediately(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(b *bubble, node int)
		want  error
	}{
		"no permission": {func(b *bubble, node int) { b.refuse(node, "NOPERM no") }, core.ErrUnavailable},
		"another type": {func(b *bubble, node int) {
			if err := b.nodes[node].Mini.Set("lockmw:{item}", "a string"); err != nil {
				b.Fatal(err)
			}
		}, core.ErrWrongType},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(b *bubble) {
				p := b.process().warm()
				tt.spoil(b, 0)
				tt.spoil(b, 1)
				c := p.call("item")
				if !c.returned() || !errors.Is(c.err, tt.want) {
					b.Errorf("Acquire: returned %t, %v, want %v", c.returned(), c.err, tt.want)
				}
			})
		})
	}
}

// The nodes are known to be unreachable when the second call begins.
func TestEachCallEndsImmediatelyWithAFinalErrorAtAMajority(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p := b.process().warm()
		b.refuse(0, "NOPERM no")
		b.refuse(1, "NOPERM no")
		for i := range 2 {
			c := p.call("item")
			if !c.returned() || !errors.Is(c.err, core.ErrUnavailable) {
				b.Errorf("call %d: returned %t, %v", i, c.returned(), c.err)
			}
			c.stop()
			c.await()
		}
	})
}
