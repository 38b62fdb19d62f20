package quorum_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/redistest"
)

// left returns the nodes that have something of a key besides done marks, which say that an id has ended.
func (b *bubble) left(key string) (nodes []int) {
	for i, s := range b.nodes {
		if slices.ContainsFunc(s.Mini.Keys(), func(k string) bool {
			return strings.HasPrefix(k, "lockmw:{"+key+"}") && !strings.Contains(k, ":done:")
		}) {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// Wherever its attempt is, a caller that gives up returns immediately, and leaves nothing at the nodes.
func TestACallThatGivesUpLeavesNothing(t *testing.T) {
	const soon = 20 * time.Millisecond // less than a slow answer takes
	for name, tt := range map[string]struct {
		until func(b *bubble, p *process) (end func()) // what holds the call up
		want  error                                    // besides that of the context
		after time.Duration
	}{
		"no node has answered": {func(b *bubble, p *process) func() {
			return held(p.wires[0].HoldReply("{item}"), p.wires[1].HoldReply("{item}"), p.wires[2].HoldReply("{item}"))
		}, core.ErrBusy, soon},
		"one node has answered": {func(b *bubble, p *process) func() {
			return held(p.wires[0].HoldReply("{item}"), p.wires[1].HoldReply("{item}"))
		}, core.ErrBusy, soon},
		"a node learns the token": {func(b *bubble, p *process) func() {
			ahead := b.setCounter(0, 30*time.Second)
			p.cut(2)
			return held(p.wires[1].HoldReply(strconv.FormatInt(ahead+1, 10)))
		}, core.ErrBusy, soon},
		"it queues": {func(b *bubble, p *process) func() {
			c := b.process().lock("item")
			return func() { b.release(c) }
		}, core.ErrBusy, soon},
		"it queues, and the others are slow": {func(b *bubble, p *process) func() {
			c, order := b.process().lock("item"), b.order("item")
			end := held(p.wires[order[1]].HoldReply("{item}"), p.wires[order[2]].HoldReply("{item}"))
			return func() {
				end()
				b.release(c)
			}
		}, core.ErrBusy, limit / 2},
		"it keeps the first node": {func(b *bubble, p *process) func() {
			order := b.order("item")
			strangers := b.occupy("item", order[1:]...)
			return func() {
				strangers[0].end()
				strangers[1].end()
			}
		}, core.ErrBusy, soon},
		"too few nodes are there": {func(b *bubble, p *process) func() {
			p.cut(0, 1)
			_ = p.try("other") // and that is known
			return p.restore
		}, core.ErrUnavailable, soon},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(b *bubble) {
				p := b.process().warm()
				end := sync.OnceFunc(tt.until(b, p))
				defer end()
				c := p.call("item")
				time.Sleep(tt.after)
				if c.returned() {
					b.Fatalf("nothing holds the call up: %v", c.err)
				}
				c.stop()
				synctest.Wait()
				if !c.returned() || !errors.Is(c.err, context.Canceled) || !errors.Is(c.err, tt.want) {
					b.Errorf("Acquire: returned %t, %v, want %v and the error of the context", c.returned(), c.err, tt.want)
				}
				end()
				p.restore()
				time.Sleep(2 * time.Second)
				if left := b.left("item"); len(left) > 0 {
					b.Errorf("something is left at nodes %v", left)
				}
				b.release(p.lock("item"))
			})
		})
	}
}

// held returns what lets replies go on.
func held(replies ...*redistest.Fault) func() {
	return func() {
		for _, f := range replies {
			f.Deliver()
		}
	}
}

// The call is busy with an event when the hold comes, and then its context ends. It may return either.
func TestAHoldThatNobodyWantsAnyMoreIsReleased(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p, q := b.process().warm(), b.process().warm()
		for range 8 {
			held := p.lock("item")
			busy := make(chan struct{})
			c := q.call("item", func(r *core.Request) { r.Events = busyCaller{new(calling), busy} })
			b.release(held)
			synctest.Wait()
			c.stop()
			close(busy)
			c.await()
			if c.err == nil {
				b.release(c)
			}
			synctest.Wait()
			if at := b.left("item"); len(at) > 0 {
				b.Fatalf("Acquire: %v; something is left at nodes %v", c.err, at)
			}
		}
	})
}

// A busyCaller is told that it has to wait, and does not return from that at first.
type busyCaller struct {
	*calling
	busy <-chan struct{}
}

func (c busyCaller) Contended(core.Wait) { <-c.busy }
