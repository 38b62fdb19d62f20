// Package localq is the part that all implementations of locks share about the calls of one process for one key: how a call
// waits, the order of calls, and how a wait ends; which call a lease may be passed to without a command; and what ends a hold.
//
//	waiter.go a call that waits
//	queue.go  waiting calls in their order
//	hold.go   one caller's turn
//	tokens.go the tokens of a lease that is passed on, and which call it may be passed to
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
	Seq      int64 // its number in the order in which calls joined the Queue
	Notified bool  // the caller knows, or is about to learn, that it has to wait

	notifyWait, notifyMove bool // the caller is to be notified that it has to wait, or that it has moved up
	wait                   core.Wait
	hold                   core.Hold
	err                    error
	signal                 chan struct{} // a notification, then the end; has room for both
}

// A Line is where a Waiter waits. Its mutex guards the Waiter.
type Line interface {
	sync.Locker
	// Busy returns the error of a call that has holders in its way. The Line is locked, here and unless noted otherwise.
	Busy() *core.AcquireError
	// WaitFailed returns the error of a wait that ends without the lock.
	WaitFailed(w *Waiter) *core.AcquireError
	// Leave removes the Waiter, and ends whatever no caller waits for afterwards.
	Leave(w *Waiter)
	// GiveBack releases a hold that its caller no longer wants. The Line is not locked.
	GiveBack(h core.Hold)
	// LocalBlocker returns a hold of this process that is in the way, or nil if none is known. The Line is not locked.
	LocalBlocker() *core.LocalHold
}

// NewWaiter returns the Waiter of a call that began at that time.
func NewWaiter(ctx context.Context, r *core.Request, began clock.Instant) *Waiter {
	return &Waiter{Ctx: ctx, Req: r, Began: began, signal: make(chan struct{}, 2)}
}

// NewWaiters returns the Waiters of a call for several locks. One channel signals news of all of them.
func NewWaiters(ctx context.Context, rs []*core.Request, began clock.Instant) (all []*Waiter, news <-chan struct{}) {
	signal := make(chan struct{}, 2*len(rs))
	for _, r := range rs {
		all = append(all, &Waiter{Ctx: ctx, Req: r, Began: began, signal: signal})
	}
	return all, signal
}

// HasEnded reports whether the context has ended or its deadline has passed, which a connection may notice before the context
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

// OnlyTries reports whether the call only tries.
func (w *Waiter) OnlyTries() bool { return w.Req.Wait == 0 }

// EndsWithOutage reports whether the call does not wait for an unreachable server: it then continues without the lock, or tries
// again by itself.
func (w *Waiter) EndsWithOutage() bool { return w.Req.FailOpen || w.Req.Once || w.Req.Leads }

// FailsFast reports whether the call ends soon if a server is unreachable.
func (w *Waiter) FailsFast() bool { return w.OnlyTries() || w.EndsWithOutage() }

// IsPatient reports whether no context can end the wait, and no limit except for the one of a try.
func (w *Waiter) IsPatient() bool {
	return w.Ctx.Done() == nil && (w.OnlyTries() || w.Req.Wait == core.Forever)
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

// Outcome returns the result of the wait; nil and nil if it has not ended.
func (w *Waiter) Outcome() (core.Hold, error) { return w.hold, w.err }

// Finish ends the wait: the call returns h or err.
func (w *Waiter) Finish(h core.Hold, err error) {
	w.hold, w.err = h, err
	w.signal <- struct{}{}
}

// Notify notifies the caller, in its own goroutine, of the holders in its way, and later of its moves up the queue.
func (w *Waiter) Notify(wait core.Wait) {
	pending := w.notifyWait || w.notifyMove
	switch {
	case w.OnlyTries():
		return
	case !w.Notified:
		w.Notified, w.notifyWait = true, true
	case w.Req.WantsMoves && wait.Position != 0 && wait.Position != w.wait.Position:
		w.notifyMove = !w.notifyWait
	default:
		return
	}
	w.wait = wait
	if !pending {
		w.signal <- struct{}{}
	}
}

// MarkNotified records that the goroutine that made the Waiter is itself notifying the caller of wait.
func (w *Waiter) MarkNotified(wait core.Wait) { w.Notified, w.wait = true, wait }

// tryPatience is how long a call that only tries waits for a server. With default settings, go-redis would wait for 10 s and
// more.
const tryPatience = 2 * time.Second

// Limit returns a channel that receives a value when the wait has lasted too long, and a function that frees the timer.
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

// News returns the result of the wait if it has ended. Otherwise it calls the caller's events.
func (w *Waiter) News(l Line) (core.Hold, error) {
	l.Lock()
	h, err, notifyWait, notifyMove, wait := w.hold, w.err, w.notifyWait, w.notifyMove, w.wait
	w.notifyWait, w.notifyMove = false, false
	l.Unlock()
	switch {
	case notifyWait:
		w.Req.Events.Contended(wait)
	case notifyMove && h == nil && err == nil:
		w.Req.Events.Waiting(wait)
	}
	return h, err
}

// Poll is Await for a wait that has already ended; it returns nil and nil if it has not.
func (w *Waiter) Poll(l Line) (core.Hold, error) {
	select {
	case <-w.signal:
		return w.News(l)
	default:
		return nil, nil
	}
}

// Await returns when there is a hold, the wait has lasted too long, the context ends, or the wait is found to be in a deadlock.
// selfWait is closed when it is time to check for a hold of this process that is in the way. Both channels may be nil.
func (w *Waiter) Await(l Line, selfWait <-chan struct{}, deadlock <-chan *core.DeadlockError) (core.Hold, error) {
	limit, stop := w.Limit()
	defer stop()
	for {
		select {
		case <-w.signal:
			if h, err := w.News(l); h != nil || err != nil {
				return h, err
			}
		case <-selfWait:
			selfWait = nil
			w.notifySelfWait(l)
		case d := <-deadlock:
			return w.endDeadlocked(l, d)
		case <-limit:
			return nil, w.cancel(l, nil)
		case <-w.Ctx.Done():
			return nil, w.cancel(l, w.Ctx.Err())
		}
	}
}

// notifySelfWait notifies the caller of a hold of this process that has been in its way since it began to wait: the hold may be
// its own. It leaves out calls for a semaphore with several permits, which no single hold blocks.
func (w *Waiter) notifySelfWait(l Line) {
	if w.Req.Permits > 1 || clock.Since(w.Began) < core.SelfWaitAfter { // selfWait is closed early when the implementation is closed
		return
	}
	found := l.LocalBlocker()
	l.Lock()
	waits := !w.IsOver()
	l.Unlock()
	if waits && found != nil && !found.Since.After(w.Began.Time()) {
		w.Req.Events.SelfWait(*found)
	}
}

// cancel ends the wait because its time is up or its context has ended. It gives back a hold that arrived at that moment.
func (w *Waiter) cancel(l Line, ended error) error {
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
		err = l.WaitFailed(w)
		l.Leave(w)
		l.Unlock()
	}
	return WithContextErr(err, ended)
}

// WithContextErr makes err also wrap the error of the call's context; nil: the context has not ended.
func WithContextErr(err *core.AcquireError, ended error) *core.AcquireError {
	if ended != nil {
		err.Err = fmt.Errorf("%w: %w", err.Err, ended)
	}
	return err
}

// endDeadlocked ends a wait that is in a deadlock. If a hold arrived at that moment, it returns the hold.
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

// SlowAnswer is how long a server may take to answer before it counts as unavailable.
const SlowAnswer = 50 * time.Millisecond

// Patience returns how long the server may have left the last request unanswered at the end of the wait, for ErrBusy. It is 0 if
// the time to wait has ended, and no answer has said that the call has to wait: it is unknown whether the lock is held.
func (w *Waiter) Patience() time.Duration {
	if w.Notified || w.HasEnded() {
		return SlowAnswer
	}
	return 0
}

// GiveUpPatience is how long a call that gives up may take to release a hold that it received in the meantime.
const GiveUpPatience = 30 * time.Millisecond

// Busy returns the error of a call that has these holders in its way.
func Busy(holders []core.Holder) *core.AcquireError {
	return &core.AcquireError{Err: core.ErrBusy, Holders: holders, RetryAfter: core.RetryAfter(holders)}
}

// TooMany returns the error of a call that exceeds the limit of waiters.
func TooMany(waiting int, holders []core.Holder) *core.AcquireError {
	return &core.AcquireError{Err: fmt.Errorf("%w: %d are already waiting", core.ErrTooManyWaiters, waiting), Holders: holders}
}
