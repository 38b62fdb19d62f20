package redlock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/test/recording"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// rejoinTime is the time within which a node that comes back has the holds again.
const rejoinTime = time.Second

// restartEmpty restarts a node without its data. The processes lose their connections.
func (b *bubble) restartEmpty(node int, all ...*process) {
	for _, p := range all {
		p.wires[node].Cut()
	}
	b.node(node).Mini.FlushAll()
	for _, p := range all {
		p.wires[node].Restore()
	}
}

// No command was sent to the node while it was down, so only its broken connections show the restart.
func TestANodeThatRestartedEmptyHasTheHoldsAgainWithinASecond(t *testing.T) {
	for name, opt := range map[string]lockmw.Option{
		"the default lease": lockmw.WithLease(30 * time.Second),
		"a fixed lease":     lockmw.WithFixedLease(30 * time.Second),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(b *bubble) {
				p, q := b.process().warm(), b.process().warm()
				ctx, hold := lock(b.T, p, "item", opt)
				until := hold.Deadline()
				for node := range 3 {
					time.Sleep(3*time.Second - rejoinTime)
					b.restartEmpty(node, p, q)
					time.Sleep(rejoinTime)
					if !b.isHeld(node, "item") || b.counter(node) < hold.Token() {
						b.Errorf("node %d has the hold: %t; its counter is %d, the token %d", node, b.isHeld(node, "item"), b.counter(node), hold.Token())
					}
					if _, _, err := q.TryLock(b.Context(), "item"); !errors.Is(err, lockmw.ErrBusy) {
						b.Fatalf("TryLock after the restart of node %d: %v, want ErrBusy", node, err)
					}
				}
				if ctx.Err() != nil {
					b.Errorf("the hold has ended: %v", context.Cause(ctx))
				}
				if moved := hold.Deadline().Sub(until); name == "a fixed lease" && moved != 0 {
					b.Errorf("the end of the fixed lease is moved by %v", moved)
				}
				usertest.Unlock(b, hold)
			})
		})
	}
}

// The node was unreachable when the lock was taken.
func TestANodeThatComesBackTakesPartInAHold(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p := b.process().warm()
		p.wires[2].Cut()
		ctx, hold := lock(b.T, p, "item")
		time.Sleep(time.Minute)
		p.wires[2].Restore()
		time.Sleep(2 * rejoinTime) // one to notice the node, one to ask it
		if !b.isHeld(2, "item") || b.counter(2) < hold.Token() {
			b.Errorf("the node has the hold: %t; its counter is %d, the token %d", b.isHeld(2, "item"), b.counter(2), hold.Token())
		}
		p.wires[0].Cut() // so that the hold needs the node
		time.Sleep(time.Minute)
		if ctx.Err() != nil {
			b.Errorf("the hold has ended: %v", context.Cause(ctx))
		}
		p.wires[0].Restore()
		usertest.Unlock(b, hold)
	})
}

// Other calls try all the time, wait at the restarted node, and take it for a moment.
func TestNodesAreRestartedEmptyOneByOneWhileOthersWait(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		const rivals = 4
		all := []*process{b.process().warm()}
		rec := recording.NewRecorder(time.Minute)
		ctx, cancel := context.WithCancel(b.Context())
		var wg sync.WaitGroup
		held, h, err := rec.Lock(b.Context(), all[0], "item", lockmw.WithLabel("holder"))
		if err != nil {
			b.Fatal(err)
		}
		for range rivals {
			p := b.process().warm()
			all = append(all, p)
			p.repeat(ctx, &wg, 2, func(ctx context.Context) {
				if _, held, err := rec.Lock(ctx, p, "item"); err == nil {
					_ = held.Unlock()
				}
			})
			p.repeat(ctx, &wg, 1, func(ctx context.Context) {
				if _, hold, err := p.TryLock(ctx, "item"); err == nil {
					_ = hold.Unlock()
				}
				time.Sleep(50 * time.Millisecond)
			})
		}
		for i := range 9 {
			time.Sleep(5*time.Second - rejoinTime)
			b.restartEmpty(i%3, all...)
			back := time.Now()
			for !strings.HasSuffix(b.node(i%3).Mini.HGet("lockmw:{item}", "owner"), "label=holder") {
				time.Sleep(10 * time.Millisecond)
			}
			b.Logf("node %d has the hold after %v", i%3, time.Since(back))
		}
		if held.Err() != nil {
			b.Errorf("the hold has ended: %v", context.Cause(held))
		}
		cancel()
		_ = h.Unlock()
		wg.Wait()
		for _, v := range rec.Violations() {
			b.Error(v)
		}
	})
}

// A leader's hold survives like any other.
func TestOneLeadsWhileNodesAreRestartedEmptyOneByOne(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		all := []*process{b.process().warm(), b.process().warm()}
		ctx, cancel := context.WithCancel(b.Context())
		var wg sync.WaitGroup
		var mu sync.Mutex
		leaders, most, terms := 0, 0, 0
		for _, p := range all {
			wg.Go(func() {
				_ = lockmw.Lead(ctx, p, "leader", func(ctx context.Context) error {
					mu.Lock()
					leaders++
					terms++
					most = max(most, leaders)
					mu.Unlock()
					<-ctx.Done()
					mu.Lock()
					leaders--
					mu.Unlock()
					return ctx.Err()
				})
			})
		}
		synctest.Wait()
		for i := range 6 {
			time.Sleep(2 * time.Second)
			b.restartEmpty(i%3, all...)
		}
		time.Sleep(rejoinTime)
		mu.Lock()
		if most != 1 || terms != 1 {
			b.Errorf("%d led together, in %d terms", most, terms)
		}
		mu.Unlock()
		cancel()
		wg.Wait()
	})
}
