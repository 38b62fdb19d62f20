package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/deadlock"
	"github.com/lockmw/go/internal/localq"
)

// A chainOf is what the context of a hold has.
type chainOf struct{ *hold }

func (c chainOf) Live() []core.Held { return []core.Held{{Hold: c.hold, Key: "outer"}} }

func (c chainOf) Within(core.Scope) core.Chain { return c }

// A nestedCall is one whose context has a hold, of a key that others have.
func (b *bubble) nestedCall(edit func(r *core.Request)) (w *localq.Waiter, c *cohort, end func()) {
	b.Helper()
	outer := newRequester("outer").acquire(b.T, b.e)
	holder := b.requester(core.Exclusive).acquire(b.T, b.e)
	a := b.requester(core.Exclusive)
	edit(&a.Request)
	w = localq.NewWaiter(context.WithValue(b.Context(), core.ChainKey{}, chainOf{outer}), &a.Request, clock.Now())
	return w, holder.lease.c, func() {
		for _, h := range []*hold{outer, holder} {
			if _, err := h.Release(time.Second); err != nil {
				b.Error(err)
			}
		}
	}
}

func TestOnlyNestedWaitsAreChecked(t *testing.T) {
	for name, test := range map[string]struct {
		edit   func(r *core.Request)
		nested bool
	}{
		"one that waits":         {func(*core.Request) {}, true},
		"one that does not look": {func(r *core.Request) { r.Detect = 0 }, true}, // others may
		"a try":                  {func(r *core.Request) { r.Wait = 0 }, false},
		"a job":                  {func(r *core.Request) { r.Once = true }, false},
		"a leader":               {func(r *core.Request) { r.Leads = true }, false},
		"one of several nodes":   {func(r *core.Request) { r.Vote = &core.Vote{} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.e.cfg.Waits = deadlock.NewRegistry()
				w, c, end := b.nestedCall(test.edit)
				n := c.beginNested(w)
				if (n != nil) != test.nested {
					t.Errorf("it is looked at: %t", n != nil)
				}
				if waits, _ := b.e.cfg.Waits.Len(); (waits == 1) != test.nested {
					t.Errorf("%d waits are registered", waits)
				}
				if n != nil {
					n.end()
				}
				end()
				if waits, leases := b.e.cfg.Waits.Len(); waits+leases > 0 {
					t.Errorf("%d waits and %d leases are left", waits, leases)
				}
			})
		})
	}
}

// The context has no hold, or only one that no other call can wait for. Finding that out costs nothing.
func TestAWaitThatIsNotNestedIsNoWork(t *testing.T) {
	inBubbleAlone(t, func(b *bubble) {
		b.e.cfg.Waits = deadlock.NewRegistry()
		w, c, end := b.nestedCall(func(*core.Request) {})
		defer end()
		w.Ctx = b.Context()
		if n := testing.AllocsPerRun(100, func() {
			if c.beginNested(w) != nil {
				t.Error("it is nested")
			}
		}); n > 0 {
			t.Errorf("%v allocations", n)
		}
		w.Ctx = context.WithValue(b.Context(), core.ChainKey{}, noChain{})
		if waits, leases := b.e.cfg.Waits.Len(); c.beginNested(w) != nil || waits+leases > 0 {
			t.Error("a wait below no hold is looked at")
		}
	})
}

type noChain struct{}

func (noChain) Live() []core.Held { return nil }

func (c noChain) Within(core.Scope) core.Chain { return c }

// However a nested wait ends, nothing of it is left: see also checkGone, for its timer.
func TestNothingOfANestedWaitIsLeft(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.e.cfg.Waits = deadlock.NewRegistry()
		outer := newRequester("outer").acquire(b.T, b.e)
		holder := b.requester(core.Exclusive).acquire(b.T, b.e)
		wait := func(wait time.Duration) (cancel func(), err <-chan error) {
			a := b.requester(core.Exclusive)
			a.Wait, a.Detect = wait, time.Second
			ctx, stop := context.WithCancel(context.WithValue(b.Context(), core.ChainKey{}, chainOf{outer}))
			result := make(chan error, 1)
			go func() {
				h, err := b.e.Acquire(ctx, &a.Request)
				if err == nil {
					_, err = h.(*hold).Release(time.Second)
				}
				result <- err
			}()
			synctest.Wait()
			return stop, result
		}
		want := func(what string, n int) {
			t.Helper()
			synctest.Wait()
			if waits, leases := b.e.cfg.Waits.Len(); waits != n || leases != min(n, 1) {
				t.Errorf("%s: %d waits and %d leases are registered", what, waits, leases)
			}
		}
		cancel, cancelled := wait(core.Forever)
		stop, granted := wait(core.Forever)
		defer stop()
		stop2, timed := wait(15 * time.Second)
		defer stop2()
		want("three wait", 3)
		time.Sleep(14 * time.Second)
		cancel()
		if err := <-cancelled; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		want("one was cancelled", 2)
		if err := <-timed; !errors.Is(err, core.ErrBusy) {
			t.Error(err)
		}
		want("one call has timed out", 1)
		if _, err := holder.Release(time.Second); err != nil {
			t.Error(err)
		}
		if err := <-granted; err != nil {
			t.Error(err)
		}
		want("one was granted", 0)
		if _, err := outer.Release(time.Second); err != nil {
			t.Error(err)
		}
	})
}

// A call that is granted the lock, or refused, in the instant in which a deadlock is found has what it was given.
func TestAGrantInTheInstantOfADeadlockCounts(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.e.cfg.Waits = deadlock.NewRegistry()
		w, c, end := b.nestedCall(func(*core.Request) {})
		n := c.beginNested(w)
		if _, waits := n.State(); !waits {
			t.Error("it does not wait")
		}
		w.Finish(nil, errors.New("refused"))
		n.Found <- &core.DeadlockError{}
		if _, err := w.Await(c, nil, n.Found); errors.Is(err, core.ErrDeadlock) || err == nil {
			t.Errorf("it got %v", err)
		}
		if _, waits := n.State(); waits {
			t.Error("others are notified that it waits")
		}
		n.end()
		end()
	})
}
