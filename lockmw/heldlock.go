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

// A heldLock is one lock that was acquired, shared by the holds that re-entered it. It implements core.Events:
// the implementation of locks reports to it.
type heldLock struct {
	locker  *kindLocker // nil: NewHold made it
	req     core.Request
	backend core.Hold // nil if failed open
	watch   *watch    // nil if nobody observes

	mu          sync.Mutex
	holds       list.List[*Hold] // that are not unlocked; empty while they are out of sight
	unseen      *unseen          // the holds while they are out of sight, else nil
	lost        error            // why the lock ended before it was unlocked
	stalled     *core.LocalHold  // of this process, for which the call waited long; nil: none
	takenAt     *stack           // with WithStacks: of the acquisition
	reading     bool             // the lock does not exclude other readers (any more)
	unconfirmed bool             // the server has not confirmed that
	contended   bool             // the call had to wait
	eventsOn    bool             // observers know of the acquisition, and may learn of further events
	blamed      atomic.Bool      // it was logged that a call waits for this one
}

// token returns the fencing token, 0 if the lock failed open.
func (l *heldLock) token() int64 {
	if l.backend == nil {
		return 0
	}
	return l.backend.Token()
}

// unlockTimeout is how long a release waits for the server.
func (l *heldLock) unlockTimeout() time.Duration {
	if l.locker == nil {
		return defaultUnlockTimeout
	}
	return l.locker.unlockTimeout
}

// isOf reports whether the lock is one of locks.
func (l *heldLock) isOf(locks core.Locks) bool { return l.locker != nil && l.locker.locks == locks }

// manyLocks returns the implementation of the lock if it can release several at once.
func (l *heldLock) manyLocks() (core.ManyLocks, bool) {
	if l.locker == nil {
		return nil, false
	}
	many, ok := l.locker.locks.(core.ManyLocks)
	return many, ok
}

// newHold makes the first hold, which is not in a context yet.
func (l *heldLock) newHold() *Hold {
	h := &Hold{lock: l, mode: l.req.Mode}
	h.ctx.hold = h
	l.mu.Lock()
	l.reading = h.mode == core.Read
	l.holds.Push(h)
	l.mu.Unlock()
	return h
}

// reenter makes one more hold, unless refuse returns an error. It returns nil and no error if the lock was
// unlocked meanwhile.
func (l *heldLock) reenter(ctx context.Context, mode core.Mode, refuse func(*heldLock) error) (*Hold, error) {
	_ = l.check() // notices a loss by the clock
	h := &Hold{lock: l, mode: mode}
	h.ctx.hold = h
	h.attach(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recall()
	switch {
	case l.lost != nil:
		return nil, l.lost
	case l.holds.IsEmpty():
		return nil, nil // nobody has the lock any more, or can unlock it
	case l.reading && mode != core.Read && mode != core.Permit: // which refuse names
		return nil, ErrUpgrade
	}
	if err := refuse(l); err != nil {
		return nil, err
	}
	l.holds.Push(h)
	return h, nil
}

// check returns why the lock is lost, nil if it is not. It compares the clock with the deadline itself.
func (l *heldLock) check() error {
	l.mu.Lock()
	lost := l.lost
	l.mu.Unlock()
	if lost == nil && l.backend != nil && l.backend.Expired() {
		cause := fmt.Errorf("%w: its lease ran out", ErrLost)
		if g, ok := l.backend.(*foreignHold); ok {
			cause = context.Cause(g.ctx)
		}
		l.Lost(cause)
		l.mu.Lock()
		lost = l.lost
		l.mu.Unlock()
	}
	return lost
}

// beginUnlock ends h. It reports whether that was the last hold, so that the lock is to be released. With the last hold that
// writes it downgrades the lock.
func (l *heldLock) beginUnlock(h *Hold) (last bool, err error) {
	lost := l.check()
	l.mu.Lock()
	l.recall()
	l.holds.Remove(h)
	last = l.holds.IsEmpty()
	if !last && lost == nil && l.onlyReads() {
		l.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), l.unlockTimeout())
		defer cancel()
		if err := l.shareWithReaders(ctx); !errors.Is(err, ErrNotHeld) { // else the last hold was unlocked meanwhile
			return false, err
		}
		return false, nil
	}
	l.mu.Unlock()
	return last, lost
}

// released tells the observers how the lock was released, and returns the error of that. If it was lost before, that is it.
func (l *heldLock) released(r core.Released, lost error) error {
	if lost != nil {
		r.Err = lost
	}
	if l.watch != nil {
		l.watch.released(Release{Held: time.Since(l.watch.since), Waiters: r.Waiters, Err: r.Err})
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
	observed := l.eventsOn && l.watch != nil
	l.recall()
	holds, unseen := slices.Collect(l.holds.All()), l.unseen
	l.mu.Unlock()
	if unseen != nil { // nobody can reach them, but their contexts may be waited for
		for _, end := range unseen.ends {
			end(cause)
		}
	}
	for _, h := range holds {
		h.ctx.end(cause)
	}
	if observed {
		l.watch.lost(cause)
	}
}

// ShuttingDown implements core.Events: it ends the context of every hold, and the lock goes on until they are
// unlocked.
func (l *heldLock) ShuttingDown() {
	l.mu.Lock()
	l.recall()
	holds := slices.Collect(l.holds.All())
	l.mu.Unlock()
	for _, h := range holds {
		h.ctx.end(errShuttingDown)
	}
}

// errShuttingDown is the cause with which the context of a leader ends at Client.Shutdown.
var errShuttingDown = fmt.Errorf("%w: it shuts down", ErrClosed)

// startEvents lets events through to the observers, which know of the acquisition now.
func (l *heldLock) startEvents() {
	l.mu.Lock()
	l.eventsOn = true
	lost := l.lost
	l.mu.Unlock()
	if lost != nil && l.watch != nil {
		l.watch.lost(lost)
	}
}

// Renewed implements core.Events.
func (l *heldLock) Renewed(err error) {
	if l.watch == nil {
		return
	}
	l.mu.Lock()
	current := l.eventsOn && l.hasHolds()
	l.mu.Unlock()
	if current {
		l.watch.renewed(err)
	}
}

// Contended implements core.Events.
func (l *heldLock) Contended(w core.Wait) {
	l.mu.Lock()
	l.contended = true
	l.mu.Unlock()
	if l.watch != nil {
		l.watch.contended(contention(w))
	}
}

// Waiting implements core.Events.
func (l *heldLock) Waiting(w core.Wait) {
	if l.watch != nil {
		l.watch.waiting(contention(w))
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
