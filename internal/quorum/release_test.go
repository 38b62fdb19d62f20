package quorum_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
)

// A lock is free when a quorum of nodes has released it. If too few confirm that, the caller learns of it, and the nodes are freed
// when they can be reached again.
func TestAReleaseIsConfirmedByAQuorumOrReported(t *testing.T) {
	for _, tt := range []struct {
		cut, empty int
		want       error
		says       string
	}{
		{cut: 1, empty: 0},
		{cut: 2, empty: 0, want: core.ErrUnavailable, says: "1 of 3 nodes"},
		{cut: 3, empty: 0, want: core.ErrUnavailable, says: "0 of 3 nodes"},
		{cut: 0, empty: 1},
		{cut: 0, empty: 2, want: core.ErrLost},
		{cut: 1, empty: 1, want: core.ErrLost},
	} {
		t.Run(fmt.Sprintf("%d nodes unreachable, %d empty", tt.cut, tt.empty), func(t *testing.T) {
			inBubble(t, 3, func(b *bubble) {
				p := b.process().warm()
				c := p.lock("item")
				p.cut(upTo(tt.cut)...)
				for i := range tt.empty {
					b.nodes[2-i].Mini.FlushAll()
				}
				_, err := c.hold.Release(2 * time.Second)
				if !errors.Is(err, tt.want) || err != nil && !strings.Contains(err.Error(), tt.says) {
					b.Errorf("Release: %v, want %v that says %q", err, tt.want, tt.says)
				}
				if _, again := c.hold.Release(time.Second); !errors.Is(again, core.ErrNotHeld) {
					b.Errorf("a second Release: %v, want ErrNotHeld", again)
				}
				p.restore()
				time.Sleep(2 * time.Second)
				if held := b.holding("item"); len(held) > 0 {
					b.Errorf("nodes %v are still held when they can be reached again", held)
				}
			})
		})
	}
}

func TestAReleaseTakesNoLongerThanTheCallerHasPatience(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p := b.process().warm()
		for _, patience := range []time.Duration{100 * time.Millisecond, 2 * time.Second} {
			c := p.lock("item")
			for _, w := range p.wires[:2] {
				w.Silence()
			}
			start := time.Now()
			_, err := c.hold.Release(patience)
			if took := time.Since(start); !errors.Is(err, core.ErrUnavailable) || took != patience {
				b.Errorf("Release: %v after %v, want ErrUnavailable after %v", err, took, patience)
			}
			p.restore()
			time.Sleep(2 * time.Second)
		}
	})
}

func TestAReleaseAfterTheDeadlineReportsTheLoss(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(r *core.Request)
		says string
	}{
		"a maximum hold": {func(r *core.Request) { r.MaxHold = lease }, "maximum hold"},
		"a fixed lease":  {fixed, "fixed lease"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(b *bubble) {
				p := b.process().warm()
				c := p.lock("item", tt.edit)
				if left := time.Until(c.hold.Deadline().Time()); left > lease || left < lease*9/10 {
					b.Errorf("the hold lasts for %v", left)
				}
				time.Sleep(lease)
				if _, err := c.hold.Release(time.Second); !errors.Is(err, core.ErrLost) || !strings.Contains(err.Error(), tt.says) {
					b.Errorf("Release: %v, want ErrLost that says %q", err, tt.says)
				}
				time.Sleep(time.Second)
				if held := b.holding("item"); len(held) > 0 {
					b.Errorf("nodes %v are still held", held)
				}
			})
		})
	}
}
