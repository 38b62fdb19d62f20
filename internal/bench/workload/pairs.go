package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockmw/go/internal/bench/exclusion"
	"github.com/lockmw/go/internal/bench/library"
)

func solo(name string) Workload {
	w := spread(name, 1)
	w.About = "1 goroutine locks and unlocks its own key"
	return w
}

// spread: n goroutines lock and unlock, each its own key. The pair is timed.
func spread(name string, n int) Workload {
	return Workload{
		Name: name, About: fmt.Sprintf("%d goroutines, each with its own key", n),
		Processes: 1, Keys: n, Wait: library.Short, Runs: locks,
		work: func(w *Worker) error {
			return w.pairs(load{goroutines: n, keyOf: func(g int) int { return g }})
		},
	}
}

// hot: goroutines of some processes lock the same key. The wait for it is timed.
func hot(name string, processes, n int) Workload {
	return Workload{
		Name: name, About: fmt.Sprintf("%d process(es) of %d goroutines want one key", processes, n),
		Processes: processes, Keys: 1, Wait: library.Short, Runs: contends,
		work: func(w *Worker) error {
			return w.pairs(load{goroutines: n, keyOf: oneKey, waits: true})
		},
	}
}

// A load describes how the goroutines of one process lock and unlock.
type load struct {
	goroutines int
	keyOf      func(goroutine int) int
	waits      bool          // the wait for the lock is timed, instead of the pair
	reads      float64       // the share of acquisitions that only read
	held       time.Duration // how long the lock is kept
	permits    bool          // the key belongs to a semaphore
}

func oneKey(int) int { return 0 }

// pairs runs goroutines that lock and unlock for the window. A goroutine that waits at its end still gets the lock, so that the
// longest wait is known. Only acquisitions within the window count for the throughput.
func (w *Worker) pairs(d load) error {
	locker, err := w.open()
	if err != nil {
		return err
	}
	defer locker.Close()
	ctx, cancel := w.context()
	defer cancel()
	reader, _ := locker.(library.Reader)
	loopers := make([]looper, d.goroutines)
	for g := range loopers {
		loopers[g] = looper{load: d, page: w.page, locker: locker, reader: reader, cell: d.keyOf(g), key: w.key(d.keyOf(g))}
	}
	const warmUp = 50 * time.Millisecond // connections, scripts, subscriptions
	if err := loopAll(ctx, loopers, warmUp); err != nil {
		return err
	}
	if err := w.start(); err != nil {
		return err
	}
	r := &Report{Elapsed: w.Window}
	stop := func() {}
	if d.permits {
		r.More = make(map[string]float64)
		stop = w.gauge(locker, r)
	}
	err = w.measure(r, func() error { return loopAll(ctx, loopers, w.Window) })
	stop()
	if err != nil {
		return err
	}
	for g := range loopers {
		l := &loopers[g]
		r.Latency.Record(l.times...)
		r.Counts = append(r.Counts, l.count)
		r.Pairs += int64(len(l.times))
		r.Stranded += l.stranded
		if d.permits { // so that the mean over the processes is the share of all of them
			r.More[InUse] += l.inside.Seconds() * float64(w.Processes) / (w.Window.Seconds() * library.Permits)
		}
	}
	if r.Pairs -= r.Stranded; r.Pairs == 0 {
		return errors.New("not a single lock was acquired")
	}
	return w.finish(r)
}

// drainTime is how long waiters have to get their lock after the window, when all others only release. The library has lost a
// waiter that does not get the lock within that time.
const drainTime = 2 * time.Second

// loopAll runs all loopers for d.
func loopAll(ctx context.Context, loopers []looper, d time.Duration) error {
	if ctx.Done() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer time.AfterFunc(d+drainTime, cancel).Stop()
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
	load
	page   *exclusion.Page
	locker library.Locker
	reader library.Reader // nil if readers exclude one another
	key    string
	cell   int

	times    []time.Duration // also of failed waits
	count    int64           // acquisitions within the window
	stranded int64           // failed waits
	inside   time.Duration   // with permits
}

// run locks and unlocks until end, and at least once: otherwise a goroutine that starts late would not be warm after the warm-up.
func (l *looper) run(ctx context.Context, end time.Time) error {
	l.times, l.count, l.stranded, l.inside = l.times[:0], 0, 0, 0
	for now := time.Now(); len(l.times) == 0 || now.Before(end); {
		start := now
		shared := l.reader != nil && l.reads > 0 && rand.Float64() < l.reads
		hold, err := l.lock(ctx, shared)
		if err != nil && ctx.Err() != nil {
			l.times = append(l.times, time.Since(start))
			l.stranded++
			return nil //nolint:nilerr // the wait was given up, and counts as stranded
		}
		if err != nil {
			return fmt.Errorf("locking: %w", err)
		}
		if l.waits {
			l.times = append(l.times, time.Since(start))
		}
		if l.permits {
			l.usePermit(hold, end)
		} else {
			l.use(shared)
		}
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

func (l *looper) lock(ctx context.Context, shared bool) (library.Hold, error) {
	if shared {
		return l.reader.RLock(ctx, l.key)
	}
	return l.locker.Lock(ctx, l.key)
}

// use is the work under the lock.
func (l *looper) use(shared bool) {
	if shared {
		l.page.EnterShared(l.cell)
		defer l.page.LeaveShared(l.cell)
	} else {
		l.page.Enter(l.cell)
		defer l.page.Leave(l.cell)
	}
	if l.held > 0 {
		_ = library.Pause(context.Background(), l.held)
	}
}
