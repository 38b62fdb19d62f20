package workload

import (
	"context"
	"fmt"
	"time"

	"github.com/lockmw/go/internal/bench/library"
)

// contended: one process holds a key while another process queues for it, and then both release it. So of each two locks one
// waits and the other is waited for. The server's time for each lock is the figure; the orders between the processes do not
// use the server. Only lockmw reports that a call is queued.
var contended = Workload{
	Name: "contended", About: "one process waits for another's lock, then both release it; the cost of a contended lock",
	Processes: 2, Keys: 1, Wait: library.Short, Runs: only("lockmw"),
	work: (*Worker).contend, lead: leadContended,
}

// contend locks and unlocks by order: the first process holds, the second waits.
func (w *Worker) contend() error {
	l, err := library.OpenLockmw(w.Config)
	if err != nil {
		return err
	}
	defer l.Close()
	ctx, cancel := w.context()
	defer cancel()
	if err := w.start(); err != nil {
		return err
	}
	r := &Report{}
	for {
		if err := w.parent.Await(lock); err != nil {
			return w.finish(r) // the order is finish
		}
		step := w.lockUntilOrder
		if w.Config.Index == 1 {
			step = w.queueAndUnlock
		}
		start := time.Now()
		if err := step(ctx, l); err != nil {
			return err
		}
		r.Latency.Record(time.Since(start))
		r.Pairs++
		if err := w.parent.Send(released, nil); err != nil {
			return err
		}
	}
}

// lockUntilOrder holds the key until the order to unlock.
func (w *Worker) lockUntilOrder(ctx context.Context, l *library.Lockmw) error {
	hold, err := l.Lock(ctx, w.key(0))
	if err != nil {
		return fmt.Errorf("locking: %w", err)
	}
	w.page.Enter(0)
	if err := w.parent.Send(acquired, nil); err != nil {
		return err
	}
	if err := w.parent.Await(unlock); err != nil {
		return err
	}
	w.page.Leave(0)
	return hold.Unlock()
}

// queueAndUnlock waits for the key, and unlocks it as soon as it holds it.
func (w *Worker) queueAndUnlock(ctx context.Context, l *library.Lockmw) error {
	var sendErr error
	hold, err := l.LockAnnounced(ctx, w.key(0), func() { sendErr = w.parent.Send(waiting, nil) })
	if err != nil {
		return fmt.Errorf("waiting: %w", err)
	}
	w.page.Enter(0)
	w.page.Leave(0)
	if err := hold.Unlock(); err != nil {
		return err
	}
	return sendErr
}

// leadContended repeats turns, and counts the server's work after the first ones.
func leadContended(ctx context.Context, m *Measurement) error {
	if err := m.begin(); err != nil {
		return err
	}
	const warmUp = 3 // connections, subscriptions
	turns := 0
	for ; turns < warmUp; turns++ {
		if err := m.contendOnce(); err != nil {
			return err
		}
	}
	err := m.during(ctx, func() error {
		for end := time.Now().Add(m.window); time.Now().Before(end); turns++ {
			if err := m.contendOnce(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := m.crew.Send(finish); err != nil {
		return err
	}
	if err := m.collect(); err != nil {
		return err
	}
	for i := range m.round.Reports {
		m.round.Reports[i].Pairs = int64(turns - warmUp)
	}
	return nil
}

// contendOnce makes the second process wait for a lock of the first one.
func (m *Measurement) contendOnce() error {
	holder, waiter := m.crew.Members()[0], m.crew.Members()[1]
	if err := sendAndExpect(holder, lock, acquired); err != nil {
		return err
	}
	if err := sendAndExpect(waiter, lock, waiting); err != nil {
		return err
	}
	if err := sendAndExpect(holder, unlock, released); err != nil {
		return err
	}
	return waiter.Expect(released, nil)
}
