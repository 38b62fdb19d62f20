package redlock_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/redlock"
)

// A hold ends earlier by the drift, whatever its deadline comes from.
func TestADriftMakesDeadlinesEarlier(t *testing.T) {
	const lease, drift = 10 * time.Second, time.Second
	for of, left := range map[string]func(p *process) time.Duration{
		"a lease":       func(p *process) time.Duration { return p.left(nil, lockmw.WithLease(lease)) },
		"a fixed lease": func(p *process) time.Duration { return p.left(nil, lockmw.WithFixedLease(lease)) },
		"an extended lease": func(p *process) time.Duration {
			return p.left(func(h *lockmw.Hold) error { return h.Extend(p.b.Context(), 2*lease) }, lockmw.WithFixedLease(lease))
		},
		"a renewed lease": func(p *process) time.Duration {
			renewed := make(chan struct{}, 10)
			told := lockmw.WithObserver(&lockmw.Observer{Renewed: func(context.Context, lockmw.Attempt, error) { renewed <- struct{}{} }})
			return p.left(func(*lockmw.Hold) error {
				<-renewed
				return nil
			}, lockmw.WithLease(lease), told)
		},
	} {
		inBubble(t, 1, func(b *bubble) { // several nodes may renew a lease at different times
			exact, early := b.process().warm(), b.process(redlock.WithDrift(drift)).warm()
			if with, without := left(early), left(exact); without-with != drift {
				b.Errorf("%s: %v are left with a drift of %v, and %v without", of, with, drift, without)
			}
		})
	}
}

// left returns how long a hold has, after something was done with it.
func (p *process) left(do func(h *lockmw.Hold) error, opts ...lockmw.Option) time.Duration {
	p.b.Helper()
	_, hold := lock(p.b.T, p, "item", opts...)
	synctest.Wait() // until all nodes have it
	if do != nil {
		if err := do(hold); err != nil {
			p.b.Error(err)
		}
	}
	defer unlock(p.b.T, hold)
	return time.Until(hold.Deadline())
}

func TestAHoldEndsBeforeTheNodesGiveItAwayByTheDrift(t *testing.T) {
	const lease, drift = 3 * time.Second, time.Second
	inBubble(t, 3, func(b *bubble) {
		p, q := b.process(redlock.WithDrift(drift)).warm(), b.process().warm()
		ctx, hold := lock(b.T, p, "item", lockmw.WithLease(lease))
		synctest.Wait()
		for _, w := range p.wires {
			w.Silence()
		}
		next := q.call("item")
		<-ctx.Done()
		if err := context.Cause(ctx); !errors.Is(err, lockmw.ErrLost) {
			b.Errorf("the hold ends with %v", err)
		}
		ended := time.Now()
		<-next.done
		if next.err != nil {
			b.Fatal(next.err)
		}
		if gap := time.Since(ended); gap < drift || gap > 2*drift {
			b.Errorf("the next hold begins %v after the first one, with a drift of %v", gap, drift)
		}
		unlock(b.T, next.hold)
		_ = hold.Unlock()
	})
}

// turns are the times at which a node grants a key, and has it free again.
type turns struct {
	mu             sync.Mutex
	granted, freed []time.Time
}

// turnsAt watches a node.
func (b *bubble) turnsAt(node int, key string) *turns {
	all := &turns{}
	holder := "lockmw:{" + key + "}"
	b.node(node).Mini.Server().SetPreHook(func(_ *server.Peer, cmd string, args ...string) bool {
		all.mu.Lock()
		defer all.mu.Unlock()
		switch {
		case cmd == "HSET" && args[0] == holder && args[1] == "id":
			all.granted = append(all.granted, time.Now())
		case cmd == "DEL" && slices.Contains(args, holder):
			all.freed = append(all.freed, time.Now())
		}
		return false
	})
	return all
}

// pauses returns the times from each turn's end to the next one.
func (a *turns) pauses() (list []time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := 1; i < len(a.granted); i++ {
		list = append(list, a.granted[i].Sub(a.freed[i-1]))
	}
	return list
}

// Others have all nodes but the first: attempts come to nothing, one after the other.
func TestAttemptsThatComeToNothingPauseAtRandom(t *testing.T) {
	for _, tt := range []struct {
		least, most time.Duration
	}{
		{300 * time.Millisecond, 300 * time.Millisecond},
		{100 * time.Millisecond, 2 * time.Second},
	} {
		inBubble(t, 3, func(b *bubble) {
			p := b.process(redlock.WithRetryDelay(tt.least, tt.most)).warm()
			key := firstAt(0, 3)
			for _, node := range []int{1, 2} {
				usertest.Lock(b, b.Context(), usertest.Client(b, b.node(node)), key)
			}
			turns := b.turnsAt(0, key)
			_, _, err := p.Lock(b.Context(), key, lockmw.WithWait(20*time.Second))
			if !errors.Is(err, lockmw.ErrBusy) {
				b.Errorf("Lock: %v, want ErrBusy", err)
			}
			pauses := turns.pauses()
			if len(pauses) < 8 {
				b.Fatalf("%d attempts in 20 s", len(pauses))
			}
			for i, pause := range pauses {
				if most := min(tt.least<<min(i+1, 16), tt.most); pause < tt.least || pause > most {
					b.Errorf("from %v to %v: pause %d is %v, and %v at most", tt.least, tt.most, i, pause, most)
				}
			}
			if longest := slices.Max(pauses); longest < tt.most/2 {
				b.Errorf("from %v to %v: no pause is longer than %v", tt.least, tt.most, longest)
			}
			if slices.Sort(pauses); tt.most > tt.least && len(slices.Compact(pauses)) < 4 {
				b.Errorf("from %v to %v: they are not random: %v", tt.least, tt.most, pauses)
			}
		})
	}
}

// What a node would refuse is refused before any is asked.
func TestACallWithTimesThatCannotWorkIsRefused(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p := b.process(redlock.WithDrift(time.Second)).warm()
		if _, _, err := p.Lock(b.Context(), "item", lockmw.WithLease(time.Second)); !errors.Is(err, lockmw.ErrInvalidOption) {
			b.Errorf("a lease of which the drift leaves nothing: %v", err)
		}
	})
}
