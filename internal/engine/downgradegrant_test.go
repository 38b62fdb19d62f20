package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

func TestDowngradeLetsReadersOfAllProcessesIn(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		other := b.engine()
		writer := b.requester(core.Write)
		h := writer.acquire(b.T, b.e)
		here, there := b.call(b.e, b.requester(core.Read)), b.call(other, b.requester(core.Read))
		next := b.call(other, b.requester(core.Write))
		b.sent()
		start := time.Now()
		if err := h.Downgrade(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.wantSent("Downgrade", "downgrade")
		for _, c := range []*calling{here, there} {
			if r := b.wantGranted("a reader that waited", c); r.Token() != h.Token() {
				b.Errorf("it has token %d, want %d", r.Token(), h.Token())
			}
		}
		if took := time.Since(start); took > 0 {
			b.Errorf("that took %v", took)
		}
		b.wantWaiting("the next writer", next)
		late := b.call(b.e, b.requester(core.Read))
		b.wantWaiting("a reader that comes later", late)
		time.Sleep(2 * scripttest.Lease) // it is renewed as before
		if len(writer.lost) > 0 || len(b.readers()) != 3 {
			b.Errorf("after two leases the server has %v", b.readers())
		}
		b.release(here.grant, there.grant)
		b.wantWaiting("the next writer", next)
		b.release(h)
		b.release(b.wantGranted("the next writer", next))
		b.release(b.wantGranted("the late reader", late))
		b.wantFree()
		b.checkGone(other)
	})
}

func TestDowngradeTwice(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		h := b.requester(core.Write).acquire(b.T, b.e)
		for range 2 {
			if err := h.Downgrade(b.Context()); err != nil {
				b.Error(err)
			}
		}
		r := b.read()
		if r.lease == h.lease {
			b.Error("another reader shares what is only downgraded")
		}
		b.release(h)
		if err := h.Downgrade(b.Context()); !errors.Is(err, core.ErrNotHeld) {
			b.Errorf("Downgrade after Release: %v", err)
		}
		if len(b.readers()) != 1 {
			b.Errorf("the server has %v", b.readers())
		}
		b.release(r)
		b.wantFree()
	})
}

func TestDowngradeOfWhatIsLost(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		a := b.requester(core.Write)
		h := a.acquire(b.T, b.e)
		b.rdb.FlushAll(b.Context())
		stranger := b.requester(core.Write).acquire(b.T, b.engine())
		if err := h.Downgrade(b.Context()); !errors.Is(err, core.ErrLost) {
			b.Errorf("Downgrade: %v", err)
		}
		b.wantLost("the writer", a, core.ErrLost)
		if err := h.Downgrade(b.Context()); !errors.Is(err, core.ErrLost) {
			b.Errorf("Downgrade again: %v", err)
		}
		if _, err := h.Release(time.Second); !errors.Is(err, core.ErrLost) {
			b.Errorf("Release: %v", err)
		}
		if id := b.driver.Look().HolderID(); id != stranger.lease.id.String() {
			b.Errorf("held by %q, want the other", id)
		}
		b.release(stranger)
		b.wantFree()
	})
}

// A downgrade that is not confirmed may have been done, and can be tried again.
func TestDowngradeThatIsNotConfirmed(t *testing.T) {
	for name, arrives := range map[string]bool{"and was done": true, "and was not": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.warm()
				h := b.requester(core.Write).acquire(b.T, b.e)
				waits := b.call(b.engine(), b.requester(core.Read))
				fault := b.wire.Withhold
				if arrives {
					fault = b.wire.HoldReply
				}
				held := fault(b.e.scripts.All()["downgrade"].SHA)
				ctx, cancel := context.WithTimeout(b.Context(), 100*time.Millisecond)
				defer cancel()
				start := time.Now()
				err := h.Downgrade(ctx)
				if !errors.Is(err, core.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 150*time.Millisecond {
					b.Errorf("Downgrade, after %v: %v", time.Since(start), err)
				}
				if arrives {
					b.release(b.wantGranted("a reader that waited", waits))
				} else {
					b.wantWaiting("a reader", waits)
					held.Break()
					if err := h.Downgrade(b.Context()); err != nil {
						b.Errorf("Downgrade again: %v", err)
					}
					b.release(b.wantGranted("a reader that waited", waits))
				}
				held.Deliver()
				b.release(h)
				b.wantFree()
			})
		})
	}
}

// Nobody of the process is handed a lock that excludes others when it does so no longer.
func TestADowngradedLockIsNotPassedOn(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		first := b.requester(core.Exclusive)
		h := first.acquire(b.T, b.e)
		next := b.call(b.e, b.requester(core.Exclusive))
		reader := b.call(b.engine(), b.requester(core.Read))
		b.wantWaiting("the next one", next)
		if err := h.Downgrade(b.Context()); err != nil {
			b.Fatal(err)
		}
		r := b.wantGranted("the reader", reader)
		b.release(h)
		b.wantWaiting("the next one", next)
		b.release(r)
		b.release(b.wantGranted("the next one", next))
		b.wantFree()
	})
}

func TestALeaseOfADowngradedHoldRunsOut(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		a := b.requester(core.Write)
		a.Fixed = true
		h := a.acquire(b.T, b.e)
		next := b.call(b.engine(), b.requester(core.Write))
		if err := h.Downgrade(b.Context()); err != nil {
			b.Fatal(err)
		}
		time.Sleep(scripttest.Lease)
		b.wantLost("the fixed lease", a, core.ErrLost)
		time.Sleep(script.PollInterval)
		b.release(b.wantGranted("the next writer", next))
		b.wantFree()
	})
}

// A reader is downgraded: it reads already.
func TestDowngradeOfAReader(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		_, grants := b.sharers(2, nil)
		if err := grants[1].Downgrade(b.Context()); err != nil {
			b.Error(err)
		}
		synctest.Wait()
		if h := b.read(); h.lease != grants[0].lease {
			b.Error("the lease is shared no longer")
		} else {
			b.release(h)
		}
		b.release(grants...)
		b.wantFree()
	})
}
