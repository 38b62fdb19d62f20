package workload

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/bench/library"
	"github.com/lockmw/go/lockmw"
)

// waited: one process holds n keys, and each of n goroutines of another process waits for one of them. At rest, commands and
// the server's processor time are counted. Then the first process releases all keys, and each goroutine unlocks its key as soon
// as it holds it. The time runs from the first release until a goroutine holds its key.
func waited(n int) Workload {
	return Workload{
		Name: SizeName("waited", n), About: fmt.Sprintf("%d goroutines wait for a key each, then all keys are released", n),
		Processes: 2, Keys: n, Wait: library.Long, Once: true, Long: n > waitedLeast, Runs: only("lockmw"),
		Window: func(d time.Duration) time.Duration { return max(5*d, 750*time.Millisecond) },
		Extra:  2 * waitedLimit,
		work: func(w *Worker) error {
			if w.Config.Index == 0 {
				return w.holdAll(n)
			}
			return w.takeAll(n)
		},
		lead: leadWaited,
	}
}

const (
	// waitedLeast is the number of keys of a quick run.
	waitedLeast = 2000
	// waitedLimit bounds each of two parts: until all wait, and until all are served.
	waitedLimit = time.Minute
	// waitedLease is so long that no hold is renewed while others wait for it.
	waitedLease = 10 * time.Minute
)

// The figures of keys with waiters. A share of waiters is relative to all of them, and a share of cores to one core.
const (
	QueuedShare  = "queued_share"           // of waiters that queued within the limit
	RestCommands = "rest_cmds_per_s"        // commands of both processes while all wait
	RestCalls    = "rest_redis_calls_per_s" // including those within scripts
	RestCores    = "rest_redis_cores"
	ServedShare  = "served_share"   // of waiters that got their locks within the limit
	ServedMillis = "served_ms"      // from the first release until all were served, or the limit
	LongestGap   = "longest_gap_ms" // the longest time without a grant
	ServedCores  = "served_redis_cores"
	ScriptsPer   = "scripts_per_lock" // by both processes, from the first release on
	FailedCalls  = "failed_calls"     // calls of both processes that failed because the server did not answer in time
)

// holdAll holds n keys, and releases all of them by order.
func (w *Worker) holdAll(n int) error {
	locker, sent, err := w.openCounted(lockmw.WithLease(waitedLease))
	if err != nil {
		return err
	}
	defer locker.Close()
	ctx, cancel := w.context()
	defer cancel()
	h := &holder{w: w, locker: locker, keys: w.keys(n), holds: make([]library.Hold, n)}
	if err := h.each(func(i int) error { return h.lock(ctx, i) }); err != nil {
		return err
	}
	if err := w.start(); err != nil {
		return err
	}
	r := &Report{}
	if err := w.countAtRest(sent, r); err != nil {
		return err
	}
	end := time.Now().Add(waitedLimit)
	var failed atomic.Int64
	err = h.each(func(i int) error {
		if time.Now().After(end) {
			return nil // the waiters report how many were served
		}
		err := h.unlock(i)
		if isOverload(err) {
			failed.Add(1)
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	r.More[FailedCalls] = float64(failed.Load())
	return w.finish(r)
}

// isOverload reports whether a call has failed because the server did not answer in time. That is a result, and does not end
// the measurement.
func isOverload(err error) bool {
	return errors.Is(err, lockmw.ErrUnavailable) || errors.Is(err, lockmw.ErrLost)
}

// takeAll waits for n keys, and takes each of them once.
func (w *Worker) takeAll(n int) error {
	locker, sent, err := w.openCounted()
	if err != nil {
		return err
	}
	defer locker.Close()
	if err := w.start(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel() // for those that were not served
	t := newTakers(locker, w.page, w.keys(n))
	t.start(ctx)
	queued := t.queued.await(waitedLimit)
	if err := w.parent.Send(waiting, nil); err != nil {
		return err
	}
	r := &Report{}
	if err := w.countAtRest(sent, r); err != nil {
		return err
	}
	t.begin()
	if err := t.serve(waitedLimit, r); err != nil {
		return err
	}
	r.More[QueuedShare] = float64(queued) / float64(n)
	return w.finish(r)
}

// openCounted opens a lockmw Client whose commands are counted. The server's statistics cannot count them: they do not separate
// a client's commands from those that a script calls.
func (w *Worker) openCounted(opts ...lockmw.ClientOption) (*library.Lockmw, *counter, error) {
	locker, err := library.OpenLockmw(w.Config, opts...)
	if err != nil {
		return nil, nil, err
	}
	sent := new(counter)
	locker.RDB.AddHook(sent)
	return locker, sent, nil
}

// countAtRest counts the commands of this process in a second between the orders to count and to release.
func (w *Worker) countAtRest(sent *counter, r *Report) error {
	if err := w.parent.Await(count); err != nil {
		return err
	}
	begun := time.Now()
	sent.reset()
	if err := w.parent.Await(release); err != nil {
		return err
	}
	r.More = map[string]float64{RestCommands: float64(sent.commands.Load()) / time.Since(begun).Seconds()}
	return nil
}

// leadWaited times another client's PINGs while all wait, counts at rest without them, and orders the release of the keys.
func leadWaited(ctx context.Context, m *Measurement) error {
	if err := m.begin(); err != nil {
		return err
	}
	if err := m.crew.Members()[1].Expect(waiting, nil); err != nil {
		return err
	}
	pings := m.server.Ping(ctx, pingPause)
	err := library.Pause(ctx, m.window/2)
	latency, pingErr := pings.Stop()
	if err := errors.Join(err, pingErr); err != nil {
		return err
	}
	if err := m.crew.Send(count); err != nil {
		return err
	}
	if err := m.during(ctx, func() error { return library.Pause(ctx, m.window) }); err != nil {
		return err
	}
	rest, window := m.round.Stats, m.round.Window.Seconds()
	if err := m.during(ctx, func() error { return errors.Join(m.crew.Send(release), m.collect()) }); err != nil {
		return err
	}
	holder, waiters := m.round.Reports[0].More, m.round.Reports[1].More
	for _, name := range []string{RestCommands, FailedCalls} {
		waiters[name] += holder[name]
		delete(holder, name)
	}
	waiters[RestCalls] = float64(rest.All()) / window
	waiters[RestCores] = rest.CPU.Seconds() / window
	notePings(latency, waiters)
	after := m.round.Stats
	waiters[ServedCores] = after.CPU.Seconds() / m.round.Window.Seconds()
	waiters[ScriptsPer] = float64(after.Calls["evalsha"]+after.Calls["eval"]) / float64(max(m.round.Reports[1].Pairs, 1))
	return nil
}
