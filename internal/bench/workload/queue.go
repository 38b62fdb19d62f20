package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/bench/exclusion"
	"github.com/lockmw/go/internal/bench/library"
	"github.com/lockmw/go/internal/bench/stat"
)

// queue: n goroutines, spread over some processes, constantly lock a key with a fair lock, so that the queue is always full.
// Acquisitions are counted while it is, and the time from each one to the next is measured.
func queue(name string, n int) Workload {
	const processes = 5
	return Workload{
		Name: name, About: fmt.Sprintf("%d goroutines of %d processes always queue for one key", n, processes),
		Group: "queue", Processes: processes, Keys: 1, Wait: library.Long, Runs: only("lockmw-fair"),
		work: func(w *Worker) error { return w.keepQueue(n/processes, n) },
		lead: func(ctx context.Context, m *Measurement) error { return leadQueue(ctx, m, n/processes) },
	}
}

// The messages of a queue other than begin, waiting and finish: one more goroutine queues, the lock is released for the first
// time, and counting begins.
const (
	join    = "join"
	release = "let go"
	count   = "count"
)

// keepQueue keeps n goroutines of this process in the queue, which has so many of all processes.
func (w *Worker) keepQueue(n, all int) error {
	locker, err := w.open()
	if err != nil {
		return err
	}
	defer locker.Close()
	ctx, cancel := w.context()
	defer cancel()
	first, err := w.holdFirst(ctx, locker)
	if err != nil {
		return err
	}
	time.Sleep(settles)
	if err := w.start(); err != nil {
		return err
	}
	l := &line{locker: locker, page: w.page, key: w.key(0), process: w.Config.Index, errs: make(chan error, n)}
	if err := w.lineUp(ctx, l, n); err != nil {
		return err
	}
	if err := w.parent.Await(release); err != nil {
		return err
	}
	if first != nil {
		w.page.Turn(0, w.Config.Index) // the next turn is timed from here
		w.page.Leave(0)
		if err := first.Unlock(); err != nil {
			return err
		}
	}
	if err := w.parent.Await(count); err != nil {
		return err
	}
	r := &Report{}
	if err := w.measure(r, func() error { return l.record(func() error { return w.parent.Await(finish) }) }); err != nil {
		return err
	}
	err = l.drain(cancel, all)
	if err != nil {
		return err
	}
	l.report(r)
	return w.finish(r)
}

// holdFirst takes the key in the first process, so that a queue forms, and makes connections in the others.
func (w *Worker) holdFirst(ctx context.Context, locker library.Locker) (library.Hold, error) {
	if w.Config.Index > 0 {
		warm, err := locker.Lock(ctx, w.key(w.Config.Index))
		if err != nil {
			return nil, err
		}
		return nil, warm.Unlock()
	}
	hold, err := locker.Lock(ctx, w.key(0))
	if err == nil {
		w.page.Enter(0)
	}
	return hold, err
}

// lineUp adds n goroutines to l, each of them by an order to join.
func (w *Worker) lineUp(ctx context.Context, l *line, n int) error {
	for range n {
		if err := w.parent.Await(join); err != nil {
			return err
		}
		l.join(ctx)
		if err := w.parent.Send(waiting, nil); err != nil {
			return err
		}
	}
	return nil
}

// A line is the goroutines of one process in the queue.
type line struct {
	locker  library.Locker
	page    *exclusion.Page
	key     string
	process int

	wg        sync.WaitGroup
	errs      chan error
	recording atomic.Bool
	over      atomic.Bool // no goroutine queues again
	length    int64
	served    atomic.Int64 // last turns, after over is set

	mu           sync.Mutex
	times        stat.Latency // from one turn to the next
	turns, other int64        // while recording: all, and those after a turn of another process
}

// join starts another goroutine and returns when it is queued.
func (l *line) join(ctx context.Context) {
	l.length++
	queued := make(chan struct{})
	l.wg.Go(func() {
		if err := l.stand(ctx, sync.OnceFunc(func() { close(queued) })); err != nil && ctx.Err() == nil {
			l.errs <- err
		}
	})
	<-queued
}

// stand queues again and again. The first time it calls queued when it is queued.
func (l *line) stand(ctx context.Context, queued func()) error {
	hold, err := l.lockFirst(ctx, queued)
	queued() // it did not have to wait
	for err == nil {
		var over bool
		if over, err = l.turn(hold); over || err != nil {
			return err
		}
		hold, err = l.locker.Lock(ctx, l.key)
	}
	return fmt.Errorf("locking: %w", err)
}

func (l *line) lockFirst(ctx context.Context, queued func()) (library.Hold, error) {
	if a, ok := l.locker.(library.Announcer); ok {
		return a.LockAnnounced(ctx, l.key, queued)
	}
	const moment = 10 * time.Millisecond // enough for libraries that do not announce it
	defer time.AfterFunc(moment, queued).Stop()
	return l.locker.Lock(ctx, l.key)
}

// turn uses the lock and releases it. It reports whether that was the last turn.
func (l *line) turn(hold library.Hold) (over bool, err error) {
	l.page.Enter(0)
	since, other := l.page.Turn(0, l.process)
	if l.recording.Load() {
		l.note(since, other)
	}
	l.page.Leave(0)
	if over = l.over.Load(); over {
		l.served.Add(1)
	}
	if err := hold.Unlock(); err != nil {
		return false, fmt.Errorf("unlocking: %w", err)
	}
	return over, nil
}

func (l *line) note(since time.Duration, other bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times.Record(since)
	l.turns++
	if other {
		l.other++
	}
}

// record records turns until f returns.
func (l *line) record(f func() error) error {
	l.recording.Store(true)
	defer l.recording.Store(false)
	return f()
}

// drain returns when each goroutine has had a last turn. The time for that grows with the length of the whole queue. The library
// has lost a goroutine that is not served within that time.
func (l *line) drain(cancel context.CancelFunc, all int) error {
	l.over.Store(true)
	const turn = 10 * time.Millisecond // at most, on average
	defer time.AfterFunc(drainTime+time.Duration(all)*turn, cancel).Stop()
	l.wg.Wait()
	close(l.errs)
	return <-l.errs // nil if there is none
}

func (l *line) report(r *Report) {
	r.Latency.Merge(&l.times)
	r.Stranded = l.length - l.served.Load()
	if l.turns > 0 {
		r.More = map[string]float64{"from_other_process": float64(l.other) / float64(l.turns)}
	}
}

// leadQueue counts turns while the queue is full. The processes add one goroutine at a time: if all came together they would be
// queued in batches, and neighbours in a long queue would belong to the same process.
func leadQueue(ctx context.Context, m *Measurement, n int) error {
	page, err := exclusion.Open(m.page)
	if err != nil {
		return err
	}
	defer page.Close()
	if err := m.begin(); err != nil {
		return err
	}
	for range n {
		if err := m.crew.Send(join); err != nil {
			return err
		}
		if err := m.crew.Expect(waiting); err != nil {
			return err
		}
	}
	if err := m.crew.Send(release); err != nil {
		return err
	}
	const warmUp = 50 * time.Millisecond
	if err := library.Pause(ctx, warmUp); err != nil {
		return err
	}
	turns, elapsed, err := m.countTurns(ctx, page)
	if err != nil {
		return err
	}
	if err := m.crew.Send(finish); err != nil {
		return err
	}
	if err := m.collect(); err != nil {
		return err
	}
	if turns == 0 {
		return errors.New("not a single lock was acquired")
	}
	r := &m.round.Reports[0]
	r.Pairs, r.Counts, r.Elapsed = turns, []int64{turns}, elapsed
	return nil
}

// countTurns counts the work of the processes and of the server for the window.
func (m *Measurement) countTurns(ctx context.Context, page *exclusion.Page) (turns int64, elapsed time.Duration, err error) {
	if err := m.crew.Send(count); err != nil {
		return 0, 0, err
	}
	stop, err := m.watch(ctx)
	if err != nil {
		return 0, 0, err
	}
	start, before := time.Now(), page.Turns(0)
	if err := library.Pause(ctx, m.window); err != nil {
		return 0, 0, err
	}
	err = stop()
	return page.Turns(0) - before, time.Since(start), err // as after the first reading of the server's statistics
}
