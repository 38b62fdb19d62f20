package workload

import (
	"context"
	"fmt"
	"time"

	"github.com/lockmw/go/internal/bench/library"
)

// Additional figures of permits, as shares of all permits.
const (
	InUse = "permits_in_use" // by the clocks of their holders
	Held  = "permits_held"   // on the server, whenever a call waits
)

// semaphores: goroutines of some processes want permits of one key, and keep them for a while. The wait is timed.
func semaphores(name string, processes, n int, held time.Duration) Workload {
	return Workload{
		Name: name, About: fmt.Sprintf("%d processes of %d goroutines want one of %d permits for %v", processes, n, library.Permits, held),
		Processes: processes, Keys: library.Permits, Wait: library.Short,
		Runs: func(l library.Library) bool { return l.Permits },
		work: func(w *Worker) error {
			return w.pairs(load{goroutines: n, keyOf: oneKey, waits: true, permits: true, held: held})
		},
	}
}

// gauge observes the server until stop is called, which writes the share of held permits into r.
func (w *Worker) gauge(locker library.Locker, r *Report) (stop func()) {
	g, ok := locker.(library.Gauge)
	if !ok || w.Config.Index != 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	looks, held := 0, 0
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for library.Pause(ctx, 5*time.Millisecond) == nil {
			if n, waited, err := g.Held(ctx, w.key(0)); err == nil && waited {
				looks++
				held += n
			}
		}
	}()
	return func() {
		cancel()
		<-ended
		if looks > 0 {
			r.More[Held] = float64(held) / float64(looks*library.Permits)
		}
	}
}

// usePermit is the work with a permit, which counts until the end of the window. No other holder shares its slot.
func (l *looper) usePermit(hold library.Hold, end time.Time) {
	start := time.Now()
	if h, ok := hold.(library.SlotHold); ok {
		l.page.Enter(h.Slot())
		defer l.page.Leave(h.Slot())
	}
	_ = library.Pause(context.Background(), l.held)
	if now := time.Now(); now.Before(end) {
		end = now
	}
	l.inside += max(end.Sub(start), 0)
}
