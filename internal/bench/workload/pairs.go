package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockmw/go/internal/bench/library"
)

func solo(name string) Workload {
	w := spread(name, 1)
	w.About = "1 goroutine locks and unlocks its own key"
	return w
}

// spread has n goroutines lock and unlock, each its own key. Timed is the pair.
func spread(name string, n int) Workload {
	return Workload{
		Name: name, About: fmt.Sprintf("%d goroutines, each with its own key", n),
		Processes: 1, Keys: n, Wait: library.Short, Runs: locks,
		work: func(w *Worker) error {
			return w.pairs(n, func(g int) int { return g }, false)
		},
	}
}

// hot has goroutines of some processes want the same key. Timed is the wait for it.
func hot(name string, processes, n int) Workload {
	return Workload{
		Name: name, About: fmt.Sprintf("%d process(es) of %d goroutines want one key", processes, n),
		Processes: processes, Keys: 1, Wait: library.Short, Runs: contends,
		work: func(w *Worker) error {
			return w.pairs(n, func(int) int { return 0 }, true)
		},
	}
}

// pairs has n goroutines lock and unlock for the window, each a key that keyOf tells. Those that wait
// when it is over still get their lock, so that the longest wait is known; it only counts for the
// throughput if it was within the window. Timed is the pair, or the wait for the lock alone.
func (w *Worker) pairs(n int, keyOf func(goroutine int) int, waits bool) error {
	locker, err := w.open()
	if err != nil {
		return err
	}
	defer locker.Close()
	ctx, cancel := w.context()
	defer cancel()
	loopers := make([]looper, n)
	for g := range loopers {
		loopers[g] = looper{w: w, locker: locker, cell: keyOf(g), key: w.key(keyOf(g)), waits: waits}
	}
	const warmUp = 50 * time.Millisecond // connections, scripts, subscriptions
	if err := loopAll(ctx, loopers, warmUp); err != nil {
		return err
	}
	if err := w.start(); err != nil {
		return err
	}
	r := &Report{Elapsed: w.Window}
	if err := w.measure(r, func() error { return loopAll(ctx, loopers, w.Window) }); err != nil {
		return err
	}
	for g := range loopers {
		l := &loopers[g]
		r.Latency.Record(l.times...)
		r.Counts = append(r.Counts, l.count)
		r.Pairs += int64(len(l.times))
		r.Stranded += l.stranded
	}
	if r.Pairs -= r.Stranded; r.Pairs == 0 {
		return errors.New("not a single lock was acquired")
	}
	return w.finish(r)
}

// drain is how long those who wait when the window is over have to get their lock. Whoever has not
// got it by then, from others who do nothing but release, has been forgotten.
const drain = 2 * time.Second

// loopAll runs all loopers for d.
func loopAll(ctx context.Context, loopers []looper, d time.Duration) error {
	if ctx.Done() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer time.AfterFunc(d+drain, cancel).Stop()
		defer cancel()
	}
	var wg sync.WaitGroup
	errs := make([]error, len(loopers))
	end := time.Now().Add(d)
	for i := range loopers {
		wg.Go(func() { errs[i] = loopers[i].run(ctx, end) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// A looper is a goroutine that locks and unlocks.
type looper struct {
	w      *Worker
	locker library.Locker
	key    string
	cell   int
	waits  bool

	times    []time.Duration // also those of a wait that came to nothing
	count    int64           // of acquisitions that were in time
	stranded int64           // waits that came to nothing
}

func (l *looper) run(ctx context.Context, end time.Time) error {
	page := l.w.page
	l.times, l.count, l.stranded = l.times[:0], 0, 0
	for now := time.Now(); now.Before(end); {
		start := now
		hold, err := l.locker.Lock(ctx, l.key)
		if err != nil && ctx.Err() != nil && l.waits {
			l.times = append(l.times, time.Since(start))
			l.stranded++
			return nil
		}
		if err != nil {
			return fmt.Errorf("locking: %w", err)
		}
		if l.waits {
			l.times = append(l.times, time.Since(start))
		}
		page.Enter(l.cell)
		page.Leave(l.cell)
		if err := hold.Unlock(); err != nil {
			return fmt.Errorf("unlocking: %w", err)
		}
		now = time.Now()
		if !l.waits {
			l.times = append(l.times, now.Sub(start))
		}
		if !now.After(end) {
			l.count++
		}
	}
	return nil
}
