package lockmw

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/list"
)

// A heldLock is one acquired lock, which is shared by the holds that re-entered it. It implements core.Events, so that the
// implementation of locks reports to it.
type heldLock struct {
	locker   *kindLocker // noLocker if NewHold made it
	req      core.Request
	backend  core.Hold    // nil if failed open
	observed *observation // nil without observers

	mu             sync.Mutex
	holds          list.List[*Hold] // the holds that were not unlocked; empty while weak is set
	weak           *weakHolds       // replaces holds from a renewal until the next use; otherwise nil
	lost           error            // why the lock ended before it was unlocked
	stalled        *core.LocalHold  // the hold of this process for which the call waited long; nil if there was none
	takenAt        *stack           // with WithStacks: where the lock was taken
	reading        bool             // the lock does not exclude other readers, or no longer does
	unconfirmed    bool             // the server has not confirmed reading
	contended      bool             // the call had to wait
	eventsOn       bool             // observers have received the acquisition, and may receive further events
	selfWaitLogged atomic.Bool      // a wait for this hold by its own process was logged
}

// isOf reports whether the lock belongs to locks.
func (l *heldLock) isOf(locks core.Locks) bool { return l.locker.locks == locks }

// newHold makes the first hold, which has no context yet.
func (l *heldLock) newHold() *Hold {
	h := &Hold{lock: l, mode: l.req.Mode}
	h.ctx.hold = h
	l.mu.Lock()
	l.reading = h.mode == core.Read
	l.holds.Push(h)
	l.mu.Unlock()
	return h
}

// reenter makes one more hold, unless refuse returns an error. It returns nil without an error if the lock was unlocked
// meanwhile.
func (l *heldLock) reenter(ctx context.Context, mode core.Mode, refuse func(*heldLock) error) (*Hold, error) {
	_ = l.check() // notices a loss by the clock
	h := &Hold{lock: l, mode: mode}
	h.ctx.hold = h
	h.attach(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.restore()
	switch {
	case l.lost != nil:
		return nil, l.lost
	case l.holds.IsEmpty():
		return nil, nil // the lock was unlocked or forgotten
	case l.reading && mode != core.Read && mode != core.Permit: // refuse handles permits
		return nil, ErrUpgrade
	}
	if err := refuse(l); err != nil {
		return nil, err
	}
	l.holds.Push(h)
	return h, nil
}

// check returns why the lock is lost, or nil if it is not. It compares the clock with the deadline itself.
func (l *heldLock) check() error {
	lost := l.knownLoss()
	if lost == nil && l.backend != nil && l.backend.Expired() {
		cause := fmt.Errorf("%w: its lease ran out", ErrLost)
		if g, ok := l.backend.(*foreignHold); ok {
			cause = context.Cause(g.ctx)
		}
		l.Lost(cause)
		lost = l.knownLoss()
	}
	return lost
}

// knownLoss is check without the clock.
func (l *heldLock) knownLoss() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// beginUnlock ends h. It reports whether that was the last hold, so that the lock must be released. If h was the last write
// hold but not the last hold, it downgrades the lock.
func (l *heldLock) beginUnlock(h *Hold) (last bool, err error) {
	lost := l.check()
	l.mu.Lock()
	l.restore()
	l.holds.Remove(h)
	last = l.holds.IsEmpty()
	if !last && lost == nil && l.beginDowngrade() {
		l.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), l.locker.unlockTimeout)
		defer cancel()
		if err := l.shareWithReaders(ctx); !errors.Is(err, ErrNotHeld) { // ErrNotHeld: the last hold was unlocked meanwhile
			return false, err
		}
		return false, nil
	}
	l.mu.Unlock()
	return last, lost
}

// released notifies the observers of the release and returns its error. If the lock was lost before, that is the error.
func (l *heldLock) released(r core.Released, lost error) error {
	if lost != nil {
		r.Err = lost
	}
	if l.observed != nil {
		l.observed.released(Release{Held: time.Since(l.observed.since), Waiters: r.Waiters, Err: r.Err})
	}
	return r.Err
}

// Lost implements core.Events: it ends the context of every hold.
func (l *heldLock) Lost(cause error) {
	l.mu.Lock()
	if l.lost != nil || !l.hasHolds() {
		l.mu.Unlock()
		return
	}
	l.lost = cause
	observed := l.eventsOn && l.observed != nil
	l.restore()
	holds, weak := slices.Collect(l.holds.All()), l.weak
	l.mu.Unlock()
	if weak != nil { // the holds may be unreachable, but goroutines may wait for their contexts
		for _, end := range weak.ends {
			end(cause)
		}
	}
	for _, h := range holds {
		h.ctx.end(cause)
	}
	if observed {
		l.observed.lost(cause)
	}
}

// ShuttingDown implements core.Events: it ends the context of every hold. The lock is held until they are unlocked.
func (l *heldLock) ShuttingDown() {
	l.mu.Lock()
	l.restore()
	holds := slices.Collect(l.holds.All())
	l.mu.Unlock()
	for _, h := range holds {
		h.ctx.end(errShuttingDown)
	}
}

// errShuttingDown is the cause with which the context of a leader ends at Client.Shutdown.
var errShuttingDown = fmt.Errorf("%w: it is shutting down", ErrClosed)

// startEvents lets further events through to the observers, which have received the acquisition.
func (l *heldLock) startEvents() {
	l.mu.Lock()
	l.eventsOn = true
	lost := l.lost
	l.mu.Unlock()
	if lost != nil && l.observed != nil {
		l.observed.lost(lost)
	}
}

// Renewed implements core.Events.
func (l *heldLock) Renewed(err error) {
	if l.observed == nil {
		return
	}
	l.mu.Lock()
	current := l.eventsOn && l.hasHolds()
	l.mu.Unlock()
	if current {
		l.observed.renewed(err)
	}
}

// Contended implements core.Events.
func (l *heldLock) Contended(w core.Wait) {
	l.mu.Lock()
	l.contended = true
	l.mu.Unlock()
	if l.observed != nil {
		l.observed.contended(contention(w))
	}
}

// Waiting implements core.Events.
func (l *heldLock) Waiting(w core.Wait) {
	if l.observed != nil {
		l.observed.waiting(contention(w))
	}
}

func contention(w core.Wait) Contention {
	return Contention{Holders: holdersOf(w.Holders), Position: w.Position, Waiters: w.Queued}
}

func (l *heldLock) isContended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.contended
}
