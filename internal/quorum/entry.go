package quorum

import (
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
)

// An entry is the state of one key in this process. It exists while it is used.
type entry struct {
	l   *Locks
	key string

	waiters localq.Queue
	bid     *bid     // in progress; nil: none
	lease   *lease   // held by this process; nil: none
	release *release // in progress; nil: none
	holder  atomic.Pointer[hold]

	why       error         // why the last bid failed, for callers that have not returned yet; nil: unknown
	holders   []core.Holder // the last known holders in other processes
	contended bool          // others waited when the last lease was released
	delays    int           // failed bids in a row
	block     int           // for how many passes the last uncontended bid wanted tokens
}

// enqueue queues w, and returns an error if it may not wait.
func (e *entry) enqueue(w *localq.Waiter) error {
	holders, held := e.knownHolders()
	waiting := e.waiters.Len
	if e.lease == nil && e.release == nil && !held && waiting > 0 {
		waiting-- // the first of them may get the lock immediately
	}
	switch most := w.Req.MaxWaiters; {
	case w.OnlyTries() && held:
		return localq.Busy(holders)
	case most > 0 && waiting >= most:
		return localq.TooMany(waiting, holders)
	}
	e.waiters.Push(w)
	if b := e.bid; b != nil && b.phase == pauses && w.FailsFast() {
		b.stopTimer()
		b.begin() // this call does not wait for unreachable nodes, so ask them again now
	}
	return nil
}

// knownHolders returns the known holders, and whether the lock is certainly held.
func (e *entry) knownHolders() (holders []core.Holder, held bool) {
	switch {
	case e.lease != nil:
		return e.lease.describe(), true
	case e.bid != nil && e.bid.isRefused:
		return e.holders, true
	}
	return nil, false
}

// start makes a bid if one is needed.
func (e *entry) start() {
	if e.bid != nil || e.lease != nil || e.release != nil {
		return
	}
	if e.waiters.Leader() == nil {
		e.removeIfIdle()
		return
	}
	b := &bid{e: e, begun: time.Now(), votes: make([]*vote, len(e.l.nodes))}
	e.bid, e.why = b, nil
	b.begin()
}

// waits reports whether any caller wants more than one try.
func (e *entry) waits() bool {
	for w := range e.waiters.All() {
		if !w.OnlyTries() && !w.HasEnded() {
			return true
		}
	}
	return false
}

// finish ends the wait of w: the call returns err, or h if that is nil.
func (e *entry) finish(w *localq.Waiter, h core.Hold, err error) {
	e.waiters.Remove(w)
	w.Finish(h, err)
}

// failAll ends the waits for which fail returns true; nil: all waits.
func (e *entry) failAll(err error, fail func(*localq.Waiter) bool) {
	for w := range e.waiters.All() {
		if fail == nil || fail(w) {
			e.finish(w, nil, err)
		}
	}
}

// notify reports the holders to every waiter.
func (e *entry) notify(wait core.Wait) {
	if wait.Holders != nil {
		e.holders = wait.Holders
	}
	e.waiters.Notify(wait)
}

// Lock implements localq.Line.
func (e *entry) Lock() { e.l.mu.Lock() }

// Unlock implements localq.Line.
func (e *entry) Unlock() { e.l.mu.Unlock() }

// Busy implements localq.Line.
func (e *entry) Busy() *core.AcquireError {
	holders, _ := e.knownHolders()
	return localq.Busy(holders)
}

// WaitFailed implements localq.Line.
func (e *entry) WaitFailed(w *localq.Waiter) *core.AcquireError {
	why := e.why
	if b := e.bid; b != nil {
		why = b.whyUnavailable(w.Patience())
	}
	if why != nil {
		return &core.AcquireError{Err: why}
	}
	return e.Busy()
}

// Leave implements localq.Line.
func (e *entry) Leave(w *localq.Waiter) {
	e.waiters.Remove(w)
	e.abandon()
}

// GiveBack implements localq.Line.
func (e *entry) GiveBack(h core.Hold) {
	held := h.(*hold)
	e.Lock()
	held.Abandoned = true
	e.Unlock()
	_, _ = h.Release(localq.GiveUpPatience) // the engines retry failed releases in the background
}

// LocalBlocker implements localq.Line.
func (e *entry) LocalBlocker() *core.LocalHold {
	h := e.holder.Load()
	if h == nil {
		return nil
	}
	local := h.Local()
	return &local
}

// abandon ends the bid if no caller waits for it any more.
func (e *entry) abandon() {
	if b := e.bid; b != nil && e.waiters.Len == 0 {
		b.end()
		drop(b.votes)
	}
	e.removeIfIdle()
}

// removeIfIdle removes the entry if it is not used.
func (e *entry) removeIfIdle() {
	if e.waiters.Len == 0 && e.bid == nil && e.lease == nil && e.release == nil && e.l.entries[e.key] == e {
		delete(e.l.entries, e.key)
	}
}
