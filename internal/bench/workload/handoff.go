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

// handoff has two processes take turns at one lock: while one holds it the other waits, and timed is
// from the moment before the release in the one to the moment after the grant in the other, by the
// machine's wall clock.
var handoff = Workload{
	Name: "handoff", About: "release in one process to grant in another",
	Processes: 2, Keys: 1, Wait: library.Short,
	Runs: func(l library.Library) bool { return !l.Pipelines },
	work: (*Worker).takeTurns, lead: leadTurns,
}

// The words of the two processes besides ready and done. at is a point in time, in nanoseconds.
const (
	lock     = "lock"
	unlock   = "unlock"
	waiting  = "waiting"
	acquired = "acquired"
	released = "released"
	finish   = "finish"
)

// takeTurns locks and unlocks when told to.
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
		if err := w.boss.Await(lock); err != nil {
			return w.finish(r) // the other order there is
		}
		if err := w.boss.Say(waiting, nil); err != nil {
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
		if err := w.boss.Say(acquired, at); err != nil {
			return err
		}
		if err := w.boss.Await(unlock); err != nil {
			return err
		}
		w.page.Leave(0)
		at = time.Now().UnixNano()
		if err := hold.Unlock(); err != nil {
			return fmt.Errorf("unlocking: %w", err)
		}
		if err := w.boss.Say(released, at); err != nil {
			return err
		}
	}
}

// lockInTheEnd asks again for a lock that did not come within drain, and says how often it had to. Nobody
// holds the lock for so long here: the library has forgotten its waiter.
func lockInTheEnd(ctx context.Context, locker library.Locker, key string) (hold library.Hold, stranded int64, err error) {
	if ctx.Done() == nil {
		hold, err = locker.Lock(ctx, key)
		return hold, 0, err
	}
	for {
		try, cancel := context.WithCancel(ctx)
		patience := time.AfterFunc(drain, cancel)
		hold, err = locker.Lock(try, key)
		switch inTime := patience.Stop(); {
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

// A boundHold keeps the context that a lock was taken with until it is released: a hold of rueidislock
// ends with it.
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
	if err := m.crew.Hear(ready); err != nil {
		return err
	}
	if err := m.crew.Tell(begin); err != nil {
		return err
	}
	holder, waiter := m.crew.Members()[0], m.crew.Members()[1]
	if err := orders(holder, lock, waiting); err != nil {
		return err
	}
	if err := holder.Hear(acquired, nil); err != nil {
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

// turn has waiter wait for the lock, holder release it, and says how long the hand-over took.
func turn(ctx context.Context, holder, waiter *crew.Member) (time.Duration, error) {
	if err := orders(waiter, lock, waiting); err != nil {
		return 0, err
	}
	// Long enough to be waiting in earnest, and different each time for those who ask again and again.
	if err := library.Pause(ctx, 4*time.Millisecond+rand.N(4*time.Millisecond)); err != nil {
		return 0, err
	}
	var from, to int64
	if err := holder.Tell(unlock); err != nil {
		return 0, err
	}
	if err := holder.Hear(released, &from); err != nil {
		return 0, err
	}
	if err := waiter.Hear(acquired, &to); err != nil {
		return 0, err
	}
	if to < from {
		return 0, errors.New("the lock was acquired before it was released, or the clock was set back")
	}
	return time.Duration(to - from), nil
}

// orders tells a member something and waits for the answer.
func orders(m *crew.Member, order, answer string) error {
	if err := m.Tell(order); err != nil {
		return err
	}
	return m.Hear(answer, nil)
}

// endTurns ends the last turn and hears the reports; the first one gets the times.
func (m *Measurement) endTurns(holder *crew.Member, times []time.Duration) error {
	if err := orders(holder, unlock, released); err != nil {
		return err
	}
	if err := m.crew.Tell(finish); err != nil {
		return err
	}
	if err := m.collect(); err != nil {
		return err
	}
	r := &m.round.Reports[0]
	r.Latency.Record(times...)
	// What the server counted began after the warm-up.
	for i := range m.round.Reports {
		m.round.Reports[i].Pairs = 0
	}
	r.Pairs = int64(len(times))
	return nil
}
