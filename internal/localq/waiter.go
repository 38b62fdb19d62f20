// Package localq is what all implementations of locks have in common of the calls of one process for one key: how a call
// waits, in which order, and how its wait ends; who may have a lease after whom without a command; and what ends a hold.
//
//	waiter.go a call that waits
//	queue.go  such calls in their order
//	hold.go   one caller's turn
//	pass.go   to whom a lease may be passed, and how many tokens that needs
//
// An implementation guards all of it by its own mutex.
package localq

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/list"
)

// A Waiter is one call of Acquire. The mutex of its Line guards it, except for Ctx, Req and Began.
type Waiter struct {
	Ctx   context.Context
	Req   *core.Request
	Began clock.Instant

	list.Links[*Waiter]
	Seq  int64 // its number among all that joined its Queue
	Told bool  // the caller knows, or is about to learn, that it has to wait

	tells, moves bool // the caller is to learn that it has to wait, or that it has moved up
	wait         core.Wait
	hold         core.Hold
	err          error
	signal       chan struct{} // first a notification, then the end; has room for both
}

// A Line is where a Waiter waits. Its mutex guards the Waiter.
type Line interface {
	sync.Locker
	// Busy returns the error of a call that somebody is in the way of. The Line is locked, here and where nothing else is said.
	Busy() *core.AcquireError
	// InVain returns why the wait so far has come to nothing.
	InVain() *core.AcquireError
	// Leave takes the Waiter off, and ends what nobody waits for any more.
	Leave(w *Waiter)
	// GiveBack releases a hold whose caller does not want it any more. The Line is not locked.
	GiveBack(h core.Hold)
	// InTheWay returns a hold of this process that is in the way of the Waiter, nil if none is known. The Line is not locked.
	InTheWay(w *Waiter) *core.LocalHold
}

// NewWaiter returns the Waiter of a call that began then.
func NewWaiter(ctx context.Context, r *core.Request, began clock.Instant) *Waiter {
	return &Waiter{Ctx: ctx, Req: r, Began: began, signal: make(chan struct{}, 2)}
}

// NewWaiters returns the Waiters of a call for several locks. News of each comes by one channel.
func NewWaiters(ctx context.Context, rs []*core.Request, began clock.Instant) (all []*Waiter, news <-chan struct{}) {
	signal := make(chan struct{}, 2*len(rs))
	for _, r := range rs {
		all = append(all, &Waiter{Ctx: ctx, Req: r, Began: began, signal: signal})
	}
	return all, signal
}

// HasEnded reports whether the context has ended or its deadline has passed: a connection may notice that before the context
// does. It may be called with a mutex held: unlike Err of a hold's context, Done and Deadline call no other code of this module.
func (w *Waiter) HasEnded() bool {
	select {
	case <-w.Ctx.Done():
		return true
	default:
	}
	deadline, ok := w.Ctx.Deadline()
	return ok && !time.Now().Before(deadline)
}

// Tries reports whether the call only tries.
func (w *Waiter) Tries() bool { return w.Req.Wait == 0 }

// EndsWithOutage reports whether the call does not wait for a server that is away: it goes on without the lock then, or tries
// again by itself.
func (w *Waiter) EndsWithOutage() bool { return w.Req.FailOpen || w.Req.Once || w.Req.Leads }

// FailsFast reports whether the call wants to know soon that a server is away.
func (w *Waiter) FailsFast() bool { return w.Tries() || w.EndsWithOutage() }

// IsPatient reports whether only an answer can end the wait.
func (w *Waiter) IsPatient() bool {
	return w.Ctx.Done() == nil && (w.Tries() || w.Req.Wait == core.Forever)
}

// Until returns when the wait ends by itself; zero: never.
func (w *Waiter) Until() (until time.Time) {
	if w.Req.Wait != core.Forever {
		until = w.Began.Time().Add(w.Req.Wait)
	}
	return core.WaitEnd(w.Ctx, until)
}

// LastsFor reports whether the wait does not end by itself within d.
func (w *Waiter) LastsFor(d time.Duration) bool {
	until := w.Until()
	return !w.HasEnded() && (until.IsZero() || time.Until(until) > d)
}

// IsOver reports whether the wait has ended.
func (w *Waiter) IsOver() bool { return w.hold != nil || w.err != nil }

// Outcome returns how the wait has ended; nil and nil if it has not.
func (w *Waiter) Outcome() (core.Hold, error) { return w.hold, w.err }

// Finish ends the wait: the call returns h or err.
func (w *Waiter) Finish(h core.Hold, err error) {
	w.hold, w.err = h, err
	w.signal <- struct{}{}
}

// Notify lets the caller know, in its own goroutine, who is in the way, and later how it moves up.
func (w *Waiter) Notify(wait core.Wait) {
	pending := w.tells || w.moves
	switch {
	case w.Tries():
		return
	case !w.Told:
		w.Told, w.tells = true, true
	case w.Req.WantsMoves && wait.Position != 0 && wait.Position != w.wait.Position:
		w.moves = !w.tells
	default:
		return
	}
	w.wait = wait
	if !pending {
		w.signal <- struct{}{}
	}
}

// Tell notes that the caller is being told of wait by its own goroutine, which has made the Waiter.
func (w *Waiter) Tell(wait core.Wait) { w.Told, w.wait = true, wait }

// tryPatience is how long a call that only tries waits for a server. With its defaults go-redis would wait for 10 s and more.
const tryPatience = 2 * time.Second

// Limit returns a channel that gets the time when the wait is too long, and a function that frees it.
func (w *Waiter) Limit() (limit <-chan time.Time, stop func()) {
	wait := w.Req.Wait
	switch wait {
	case core.Forever:
		return nil, func() {}
	case 0:
		wait = tryPatience
	}
	timer := time.NewTimer(wait - clock.Since(w.Began))
	return timer.C, func() { timer.Stop() }
}

// News returns how the wait has ended, if it has, and else calls the caller's events.
func (w *Waiter) News(l Line) (core.Hold, error) {
	l.Lock()
	h, err, tells, moves, wait := w.hold, w.err, w.tells, w.moves, w.wait
	w.tells, w.moves = false, false
	l.Unlock()
	switch {
	case tells:
		w.Req.Events.Contended(wait)
	case moves && h == nil && err == nil:
		w.Req.Events.Waiting(wait)
	}
	return h, err
}

// Poll is Await for a wait that has ended already; nil and nil if it has not.
func (w *Waiter) Poll(l Line) (core.Hold, error) {
	select {
	case <-w.signal:
		return w.News(l)
	default:
		return nil, nil
	}
}

// Await returns when there is a hold, the time is over, the context ends, or the wait is found to be in a deadlock. stalled is
// closed when it is time to tell the caller of a hold of this process that is in the way; both channels may be nil.
func (w *Waiter) Await(l Line, stalled <-chan struct{}, deadlock <-chan *core.DeadlockError) (core.Hold, error) {
	limit, stop := w.Limit()
	defer stop()
	for {
		select {
		case <-w.signal:
			if h, err := w.News(l); h != nil || err != nil {
				return h, err
			}
		case <-stalled:
			stalled = nil
			w.tellOfStall(l)
		case d := <-deadlock:
			return w.endDeadlocked(l, d)
		case <-limit:
			return nil, w.giveUp(l, nil)
		case <-w.Ctx.Done():
			return nil, w.giveUp(l, w.Ctx.Err())
		}
	}
}

// tellOfStall lets the caller know if a hold of this process has been in its way since it began to wait. Then it may be its own.
// Who waits for one of several permits has nobody in the way.
func (w *Waiter) tellOfStall(l Line) {
	if w.Req.Permits > 1 || clock.Since(w.Began) < core.StallAfter { // sooner, if the implementation is being closed
		return
	}
	found := l.InTheWay(w)
	l.Lock()
	waits := !w.IsOver()
	l.Unlock()
	if waits && found != nil && !found.Since.After(w.Began.Time()) {
		w.Req.Events.Stalled(*found)
	}
}

// giveUp ends the wait, because its time is over or its context ended. A hold that came in this instant is given back.
func (w *Waiter) giveUp(l Line, ended error) error {
	l.Lock()
	var err *core.AcquireError
	switch {
	case w.hold != nil:
		h := w.hold
		l.Unlock()
		l.GiveBack(h)
		err = Busy(nil)
	case w.err != nil:
		defer l.Unlock()
		return w.err
	default:
		err = l.InVain()
		l.Leave(w)
		l.Unlock()
	}
	return WithEnd(err, ended)
}

// WithEnd has err, of a call in vain, also wrap the end of its context; nil: that has not ended.
func WithEnd(err *core.AcquireError, ended error) *core.AcquireError {
	if ended != nil {
		err.Err = fmt.Errorf("%w: %w", err.Err, ended)
	}
	return err
}

// endDeadlocked ends a wait that is in a deadlock. It returns the hold that came in this instant, if one did.
func (w *Waiter) endDeadlocked(l Line, d *core.DeadlockError) (core.Hold, error) {
	l.Lock()
	defer l.Unlock()
	if w.IsOver() {
		return w.hold, w.err
	}
	err := l.Busy()
	err.Err = d
	l.Leave(w)
	return nil, err
}

// SlowAnswer is after how long without an answer a server counts as unavailable. A call whose time is over sooner gets ErrBusy.
const SlowAnswer = 50 * time.Millisecond

// GiveUpPatience is how long a call that gives up may take to release a hold that it was given meanwhile.
const GiveUpPatience = 30 * time.Millisecond

// Busy returns the error of a call that the holders are in the way of.
func Busy(holders []core.Holder) *core.AcquireError {
	return &core.AcquireError{Err: core.ErrBusy, Holders: holders, RetryAfter: core.RetryAfter(holders)}
}

// TooMany returns the error of a call that would be one more than may wait.
func TooMany(waiting int, holders []core.Holder) *core.AcquireError {
	return &core.AcquireError{Err: fmt.Errorf("%w: %d wait already", core.ErrTooManyWaiters, waiting), Holders: holders}
}
