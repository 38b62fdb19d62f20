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
)

func TestAHoldEndsEarlierByTheClockMargin(t *testing.T) {
	const lease, margin = 3 * time.Second, time.Second
	inBubble(t, 3, func(b *bubble) {
		p, q := b.process(lockmw.WithClockMargin(margin)).warm(), b.process().warm()
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
		if gap := time.Since(ended); gap < margin || gap > 2*margin {
			b.Errorf("the next hold begins %v after the first one, with a margin of %v", gap, margin)
		}
		usertest.Unlock(b, next.hold)
		_ = hold.Unlock()
	})
}

// turns are the times at which a node grants and frees a key.
type turns struct {
	mu             sync.Mutex
	granted, freed []time.Time
}

// turnsAt records the turns of a key at a node.
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

// Other calls hold the key at all nodes but the first, so one attempt after the other fails.
func TestFailedAttemptsPauseAtRandom(t *testing.T) {
	const least, most = 10 * time.Millisecond, 500 * time.Millisecond
	inBubble(t, 3, func(b *bubble) {
		p := b.process().warm()
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
			if bound := min(least<<min(i+1, 16), most); pause < least || pause > bound {
				b.Errorf("pause %d is %v, want %v to %v", i, pause, least, bound)
			}
		}
		if longest := slices.Max(pauses); longest < most/2 {
			b.Errorf("no pause is longer than %v", longest)
		}
		if slices.Sort(pauses); len(slices.Compact(pauses)) < 4 {
			b.Errorf("they are not random: %v", pauses)
		}
	})
}
