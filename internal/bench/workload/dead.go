package workload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/lockmw/go/internal/bench/library"
)

// dead: one process holds n keys, and two others wait for all of them. The process whose tickets come first dies, and then the
// holder releases all keys. The time runs from the death until the last goroutine of the other process holds its key.
func dead(n int) Workload {
	return Workload{
		Name: SizeName("dead", n), About: fmt.Sprintf("a process dies that is the first to wait for %d keys, then they are released", n),
		Processes: 3, Keys: n, Wait: library.Long, Once: true, Long: n != lostLeast && n != lostMost, Runs: only("lockmw"),
		Window: func(time.Duration) time.Duration { return deadSettles },
		Extra:  2 * waitedLimit,
		work: func(w *Worker) error {
			if w.Config.Index == 0 {
				return w.releaseTogether(n)
			}
			return w.outlive(n)
		},
		lead: leadDead,
	}
}

// deadSettles is how long all wait before the process dies: long enough for it to show by a beat that it is alive.
const deadSettles = 1500 * time.Millisecond

// releaseTogether holds n keys, and releases all of them by order.
func (w *Worker) releaseTogether(n int) error {
	l, h, err := w.holdKeys(n)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := w.start(); err != nil {
		return err
	}
	if err := w.parent.Await(release); err != nil {
		return err
	}
	return errors.Join(h.each(h.unlock), w.finish(&Report{}))
}

// outlive waits for n keys. The order to crash ends the process; otherwise it takes each key once.
func (w *Worker) outlive(n int) error {
	l, err := library.OpenLockmw(w.Config)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := w.start(); err != nil {
		return err
	}
	if err := w.parent.Await(lock); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	t := newTakers(l, w.page, w.keys(n))
	if err := t.queue(ctx); err != nil {
		return err
	}
	if err := w.parent.Send(waiting, nil); err != nil {
		return err
	}
	if w.parent.Next() == crash {
		die()
	}
	t.begin()
	if err := w.parent.Send(ready, nil); err != nil {
		return err
	}
	r := &Report{}
	if err := t.serve(waitedLimit, r); err != nil {
		return err
	}
	r.More[NoticedMillis] = r.More[ServedMillis]
	return w.finish(r)
}

// die ends the process without a farewell to the server.
func die() { os.Exit(0) }

// leadDead lets the second process die before the first one releases its keys to the third.
func leadDead(ctx context.Context, m *Measurement) error {
	if err := m.begin(); err != nil {
		return err
	}
	members := m.crew.Members()
	holder, dies, lives := members[0], members[1], members[2]
	for _, waiter := range members[1:] {
		if err := sendAndExpect(waiter, lock, waiting); err != nil {
			return err
		}
	}
	if err := library.Pause(ctx, m.window); err != nil {
		return err
	}
	if err := sendAndExpect(lives, release, ready); err != nil { // the time begins
		return err
	}
	if err := dies.Send(crash); err != nil {
		return err
	}
	if err := m.crew.Bury(dies); err != nil {
		return err
	}
	if err := holder.Send(release); err != nil {
		return err
	}
	return m.collect()
}
