package permit

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

// A watch tracks the holders of a key, from their grant until just before their unlock.
type watch struct {
	e  *env.Env
	mu sync.Mutex
	in map[*lockmw.Hold]int // the n of each hold
	n  int                  // number of holds seen
}

func (w *watch) enter(h *lockmw.Hold, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !time.Now().Before(h.Deadline()) {
		return // this goroutine noticed its grant too late
	}
	w.n++
	w.in[h] = n
	weight, slots, most := 0, make(map[int]bool), 0
	for other, n := range w.in {
		if !time.Now().Before(other.Deadline()) {
			continue
		}
		most = max(most, n)
		for _, slot := range other.Slots() {
			if slots[slot] {
				w.e.T.Errorf("slot %d is held twice", slot)
			}
			slots[slot] = true
			weight++
		}
		if other != h && other.Token() == h.Token() {
			w.e.T.Errorf("two holds have token %d", h.Token())
		}
	}
	if weight > most {
		w.e.T.Errorf("permits of weight %d are held, want at most %d", weight, most)
	}
	if slots := h.Slots(); slots[len(slots)-1] >= n {
		w.e.T.Errorf("the slots are %v of %d", slots, n)
	}
}

func (w *watch) leave(h *lockmw.Hold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.in, h)
}

func neverMore(e *env.Env) { contend(e, func(int) int { return 4 }) }

func neverMoreInRollOut(e *env.Env) { contend(e, func(client int) int { return 2 + 2*client }) }

// contend makes goroutines of three clients take permits of random weights. permits returns a client's n.
func contend(e *env.Env, permits func(client int) int) {
	const contenders, rounds = 5, 8
	w := watch{e: e, in: make(map[*lockmw.Hold]int)}
	key := e.Key("pool")
	var wg sync.WaitGroup
	for i, c := range e.Clients(3) {
		n := permits(i)
		l := over(c, n)
		for range contenders {
			wg.Go(func() {
				for range rounds {
					_, hold, err := l.Lock(e.Ctx, key, lockmw.WithWeight(1+rand.IntN(n)))
					if err != nil {
						e.T.Errorf("Lock: %v", err)
						return
					}
					before := hold.Slots()
					w.enter(hold, n)
					e.Pass(time.Duration(rand.IntN(2000)) * time.Microsecond)
					w.leave(hold)
					if after := hold.Slots(); !slices.Equal(before, after) {
						e.T.Errorf("the slots were %v and are %v", before, after)
					}
					if err := hold.Unlock(); err != nil {
						e.T.Errorf("Unlock: %v", err)
					}
				}
			})
		}
	}
	wg.Wait()
	if w.n < contenders*rounds {
		e.T.Errorf("only %d holds were seen in time", w.n)
	}
}

// lock takes permits that must be free.
func lock(e *env.Env, l lockmw.Locker, key string, weight int, opts ...lockmw.Option) (context, *lockmw.Hold) {
	e.T.Helper()
	ctx, hold, err := l.Lock(e.Ctx, key, append(opts, lockmw.WithWeight(weight))...)
	if err != nil {
		e.T.Fatalf("Lock: %v", err)
	}
	return ctx, hold
}

func unlock(e *env.Env, h *lockmw.Hold) {
	e.T.Helper()
	if err := h.Unlock(); err != nil {
		e.T.Errorf("Unlock: %v", err)
	}
}
