package quorum_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
)

// threeCalls has one call of the process hold the lock of a key with tokens for more, and two others wait. The first lock has one
// token only, since nobody waited when the nodes were asked.
func (p *process) threeCalls(edit ...func(*core.Request)) (held *calling, waits []*calling) {
	p.b.Helper()
	first := p.lock("item", edit...)
	for range 3 {
		waits = append(waits, p.call("item", edit...))
	}
	p.b.release(first)
	synctest.Wait()
	if !waits[0].returned() || waits[0].err != nil {
		p.b.Fatalf("the oldest call does not get the lock: %v", waits[0].err)
	}
	return waits[0], waits[1:]
}

func TestALockIsPassedOnWithinTheProcessWithoutACommand(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p := b.process().warm()
		held, waits := p.threeCalls()
		p.record()
		for _, next := range waits {
			b.release(held)
			synctest.Wait()
			if !next.returned() || next.err != nil || next.hold.Token() <= held.hold.Token() {
				b.Fatalf("the next call: returned %t, %v", next.returned(), next.err)
			}
			held = next
		}
		if n := p.scripts(aboutItem); n[0]+n[1]+n[2] != 0 {
			b.Errorf("the nodes were sent %v commands", n)
		}
		b.release(held)
	})
}

// Another process may have its turn, and a lease that is nearly over is good for nobody. Nor is a fixed lease, all of which the next
// call wants.
func TestALockIsReleasedAlthoughACallOfItsProcessWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		edit   func(r *core.Request)
		before func(b *bubble, p *process)
	}{
		"another process waits": {short, func(b *bubble, _ *process) {
			b.process().call("item")
			time.Sleep(lease) // the holder hears of that with a renewal
		}},
		"the lease is nearly over": {short, func(_ *bubble, p *process) {
			for _, w := range p.wires {
				w.Silence()
			}
			time.Sleep(lease * 2 / 3)
		}},
		"the lease is fixed": {fixed, func(*bubble, *process) {}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(b *bubble) {
				p := b.process().warm()
				held, waits := p.threeCalls(tt.edit)
				tt.before(b, p)
				p.record()
				_, _ = held.hold.Release(time.Second) // silent nodes confirm nothing
				if n := p.scripts(aboutItem); slices.Max(n) == 0 && waits[0].returned() {
					b.Error("the next call of the process has the lock without a command")
				}
				for _, c := range waits {
					c.stop()
				}
			})
		})
	}
}

// If its lease is another one, the nodes are asked again.
func TestTheNextCallTakesOverTheAttemptOfACallThatGivesUp(t *testing.T) {
	for name, tt := range map[string]struct {
		lease time.Duration // of the second call; that of the first is 30 s
		again bool          // nodes are asked once more
	}{
		"of the same lease": {30 * time.Second, false},
		"of another lease":  {10 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(b *bubble) {
				p := b.process().warm()
				p.record()
				var answers []func()
				for _, w := range p.wires {
					answers = append(answers, w.HoldReply("{item}").Deliver)
				}
				first := p.call("item")
				second := p.call("item", func(r *core.Request) { r.Lease = tt.lease })
				first.stop()
				first.await()
				for _, deliver := range answers {
					deliver()
				}
				second.await()
				if second.err != nil {
					b.Fatal(second.err)
				}
				time.Sleep(time.Second) // a grant that was queued for is renewed first
				if left := time.Until(second.hold.Deadline().Time()); left > tt.lease || left < tt.lease/2 {
					b.Errorf("the hold lasts for %v, of a lease of %v", left, tt.lease)
				}
				if n := p.scripts(asksItem); (slices.Max(n) > 1) != tt.again {
					b.Errorf("the nodes were asked %v times; want more than once: %t", n, tt.again)
				}
				b.release(second)
			})
		})
	}
}

// A call that only tries is answered by whoever holds the lock in the process, without a command.
func TestATryIsRefusedByAHoldOfItsProcessWithoutACommand(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p := b.process().warm()
		held := p.lock("item")
		p.record()
		c := p.try("item")
		failure, _ := errors.AsType[*core.AcquireError](c.err)
		if failure == nil || !errors.Is(failure, core.ErrBusy) || failure.Holders[0].Token != held.hold.Token() || c.took > 0 {
			b.Errorf("Acquire: %v after %v, want ErrBusy with the holder", c.err, c.took)
		}
		if n := p.scripts(aboutItem); n[0]+n[1]+n[2] != 0 {
			b.Errorf("the nodes were sent %v commands", n)
		}
		b.release(held)
	})
}
