package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockmw/go/internal/bench/crew"
	"github.com/lockmw/go/internal/bench/library"
)

// handoff: two processes take turns with one lock. While one holds it, the other waits. The time is measured from just before
// the release in one process to just after the grant in the other, by the machine's wall clock.
var handoff = Workload{
	Name: "handoff", About: "release in one process to grant in another",
	Processes: 2, Keys: 1, Wait: library.Short,
	Runs: func(l library.Library) bool { return !l.Pipelines && !l.Permits && l.Calls == nil },
	work: (*Worker).takeTurns, lead: leadTurns,
}

// The messages of the two processes other than ready and done. The data of acquired and released is a time in nanoseconds.
const (
	lock     = "lock"
	unlock   = "unlock"
	waiting  = "waiting"
	acquired = "acquired"
	released = "released"
	finish   = "finish"
)

// takeTurns locks and unlocks by order.
func (w *Worker) takeTurns() error {
	locker, err := w.open()
	if err != nil {
		return err
	}
	defer locker.Close()
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
		if err := w.parent.Send(waiting, nil); err != nil {
			return err
		}
		hold, stranded, err := lockInTheEnd(ctx, locker, w.key(0))
		at := time.Now().UnixNano()
		r.Stranded += stranded
		if err != nil {
			return fmt.Errorf("locking: %w", err)
		}
		r.Pairs++
		w.page.Enter(0)
		if err := w.parent.Send(acquired, at); err != nil {
			return err
		}
		if err := w.parent.Await(unlock); err != nil {
			return err
		}
		w.page.Leave(0)
		at = time.Now().UnixNano()
		if err := hold.Unlock(); err != nil {
			return fmt.Errorf("unlocking: %w", err)
		}
		if err := w.parent.Send(released, at); err != nil {
			return err
		}
	}
}

// lockInTheEnd tries again if the lock did not come within drainTime, and returns how often it had to. No process holds the
// lock for that long here: the library has lost its waiter.
func lockInTheEnd(ctx context.Context, locker library.Locker, key string) (hold library.Hold, stranded int64, err error) {
	if ctx.Done() == nil {
		hold, err = locker.Lock(ctx, key)
		return hold, 0, err
	}
	for {
		try, cancel := context.WithCancel(ctx)
		limit := time.AfterFunc(drainTime, cancel)
		hold, err = locker.Lock(try, key)
		switch inTime := limit.Stop(); {
		case err == nil && inTime:
			return boundHold{hold, cancel}, stranded, nil
		case err == nil:
			err = boundHold{hold, cancel}.Unlock() // it may have ended with its context
		case !inTime && ctx.Err() == nil:
			err = nil
		}
		cancel()
		if err != nil {
			return nil, stranded, err
		}
		stranded++
	}
}

// A boundHold keeps its context alive until it is released: a hold of rueidislock ends with the context.
type boundHold struct {
	library.Hold
	cancel context.CancelFunc
}

// Unlock implements library.Hold.
func (h boundHold) Unlock() error {
	defer h.cancel()
	return h.Hold.Unlock()
}

// leadTurns passes the lock back and forth.
func leadTurns(ctx context.Context, m *Measurement) error {
	if err := m.begin(); err != nil {
		return err
	}
	holder, waiter := m.crew.Members()[0], m.crew.Members()[1]
	if err := sendAndExpect(holder, lock, waiting); err != nil {
		return err
	}
	if err := holder.Expect(acquired, nil); err != nil {
		return err
	}
	const warmUp = 3 // connections, subscriptions
	var times []time.Duration
	var stop func() error
	for end := time.Now().Add(m.window); time.Now().Before(end) || len(times) <= warmUp; {
		if len(times) == warmUp {
			var err error
			if stop, err = m.watch(ctx); err != nil {
				return err
			}
		}
		took, err := turn(ctx, holder, waiter)
		if err != nil {
			return err
		}
		times = append(times, took)
		holder, waiter = waiter, holder
	}
	if err := stop(); err != nil {
		return err
	}
	return m.endTurns(holder, times[warmUp:])
}

// turn makes waiter wait for the lock and holder release it, and returns the time of the hand-over.
func turn(ctx context.Context, holder, waiter *crew.Member) (time.Duration, error) {
	if err := sendAndExpect(waiter, lock, waiting); err != nil {
		return 0, err
	}
	// Long enough for waiter to wait, and different each time for libraries that poll.
	if err := library.Pause(ctx, 4*time.Millisecond+rand.N(4*time.Millisecond)); err != nil {
		return 0, err
	}
	return passOver(holder, waiter)
}

// passOver makes holder release the lock for which waiter waits, and returns the time of the hand-over.
func passOver(holder, waiter *crew.Member) (time.Duration, error) {
	var from, to int64
	if err := holder.Send(unlock); err != nil {
		return 0, err
	}
	if err := holder.Expect(released, &from); err != nil {
		return 0, err
	}
	if err := waiter.Expect(acquired, &to); err != nil {
		return 0, err
	}
	if to < from {
		return 0, errors.New("the lock was acquired before it was released, or the clock was set back")
	}
	return time.Duration(to - from), nil
}

// sendAndExpect sends a member an order, and waits for the answer.
func sendAndExpect(m *crew.Member, order, answer string) error {
	if err := m.Send(order); err != nil {
		return err
	}
	return m.Expect(answer, nil)
}

// endTurns ends the last turn and collects the reports. The first report gets the times.
func (m *Measurement) endTurns(holder *crew.Member, times []time.Duration) error {
	if err := sendAndExpect(holder, unlock, released); err != nil {
		return err
	}
	if err := m.crew.Send(finish); err != nil {
		return err
	}
	if err := m.collect(); err != nil {
		return err
	}
	r := &m.round.Reports[0]
	r.Latency.Record(times...)
	// The server's counts began after the warm-up.
	for i := range m.round.Reports {
		m.round.Reports[i].Pairs = 0
	}
	r.Pairs = int64(len(times))
	return nil
}
