package workload

import (
	"context"
	"fmt"
	"time"

	"github.com/lockmw/go/internal/bench/library"
)

// The figures of permits besides the usual ones, as shares of all permits.
const (
	InUse = "permits_in_use" // by the clocks of those who have them
	Held  = "permits_held"   // at the server, whenever somebody waits
)

// semaphores: goroutines of some processes want permits of one key, and keep them for a while. Timed is the wait.
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

// gauge looks at the server until stop is called, which puts into r what share of the permits was held.
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

// usePermit is the work with a permit, which counts until the end of the window. Who has a slot shares it with nobody.
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
