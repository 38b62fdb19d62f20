package quorum_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
)

func TestCloseEndsHoldsAndWaits(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p, q := b.process().warm(), b.process().warm()
		held, waits := p.lock("item"), p.call("item")
		foreign := q.lock("other")
		queues := p.call("other")
		if err := p.Close(); err != nil {
			b.Errorf("Close: %v", err)
		}
		if h := held.heard(); len(h.lost) != 1 || !errors.Is(h.lost[0], core.ErrClosed) {
			b.Errorf("the holder hears of %v, want ErrClosed", h.lost)
		}
		if _, err := held.hold.Release(time.Second); !errors.Is(err, core.ErrClosed) {
			b.Errorf("Release: %v, want ErrClosed", err)
		}
		for name, c := range map[string]*calling{"waits for its process": waits, "queues": queues, "comes afterwards": p.try("item")} {
			if !c.returned() || !errors.Is(c.err, core.ErrClosed) {
				b.Errorf("a call that %s: returned %t, %v, want ErrClosed", name, c.returned(), c.err)
			}
		}
		synctest.Wait()
		if left := b.left("item"); len(left) > 0 {
			b.Errorf("the lock is left at nodes %v", left)
		}
		if at := b.queueing("other"); len(at) > 0 {
			b.Errorf("the call still queues at nodes %v", at)
		}
		b.release(foreign, q.lock("item"))
		if err := p.Close(); err != nil {
			b.Errorf("a second Close: %v", err)
		}
	})
}

// The engines are those of the nodes' Clients, which stay open.
func TestCloseLeavesTheEnginesOpen(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p := b.process().warm()
		if err := p.Close(); err != nil {
			b.Errorf("Close: %v", err)
		}
		for i, e := range p.engines {
			r := core.Request{Key: "item", Mode: core.Exclusive, Owner: strings.Repeat("c", 32), Lease: time.Minute, Events: new(calling)}
			hold, err := e.Acquire(b.Context(), &r)
			if err != nil {
				b.Fatalf("node %d: %v", i, err)
			}
			_, _ = hold.Release(time.Second)
		}
	})
}

func TestClosedEnginesEndWaits(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p, q := b.process().warm(), b.process().warm()
		held := q.lock("item")
		waits := p.call("item")
		for i, e := range p.engines {
			if waits.returned() {
				b.Errorf("the call ends before engine %d is closed: %v", i, waits.err)
			}
			if err := e.Close(); err != nil {
				b.Error(err)
			}
			synctest.Wait()
		}
		for name, c := range map[string]*calling{"waits": waits, "comes afterwards": p.try("item")} {
			if !c.returned() || !errors.Is(c.err, core.ErrClosed) {
				b.Errorf("a call that %s: returned %t, %v, want ErrClosed", name, c.returned(), c.err)
			}
		}
		b.release(held)
	})
}

func TestShutdownWaitsForHoldsOnly(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p := b.process().warm()
		held := p.lock("item", short)
		leads := p.lock("leader", func(r *core.Request) { r.Leads = true })
		waits := p.call("item")
		ended := make(chan error, 1)
		go func() { ended <- p.Shutdown(b.Context()) }()
		synctest.Wait()
		for name, c := range map[string]*calling{"waits": waits, "comes afterwards": p.try("item")} {
			if !c.returned() || !errors.Is(c.err, core.ErrClosed) {
				b.Errorf("a call that %s: returned %t, %v, want ErrClosed", name, c.returned(), c.err)
			}
		}
		if of, led := held.heard().shutdowns, leads.heard().shutdowns; of != 0 || led != 1 {
			b.Errorf("the holder is asked to end %d times, the leader %d times", of, led)
		}
		b.release(leads)
		time.Sleep(3 * lease)
		if held.hold.Expired() || len(ended) > 0 {
			b.Errorf("the hold has expired: %t; Shutdown has returned: %t", held.hold.Expired(), len(ended) > 0)
		}
		b.release(held)
		synctest.Wait()
		if len(ended) == 0 || <-ended != nil {
			b.Error("Shutdown does not return when the last hold has ended")
		}
	})
}

func TestShutdownReportsHoldsThatHaveNotEnded(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p := b.process().warm()
		held := p.lock("item")
		ctx, cancel := context.WithTimeout(b.Context(), time.Second)
		defer cancel()
		if err := p.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1") {
			b.Errorf("Shutdown: %v, want the error of the context, and the number of holds", err)
		}
		b.release(held)
	})
}
