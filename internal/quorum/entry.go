package quorum

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/list"
)

// An entry is the state of one key in this process. It exists while it is used.
type entry struct {
	l   *Locks
	key string

	waiters list.List[*waiter] // in the order of their calls
	n       int                // of waiters
	joined  int64              // how many ever joined
	attempt *attempt           // under way; nil: none
	lease   *lease             // held by one of this process; nil: none
	release *release           // under way; nil: none
	holder  atomic.Pointer[hold]

	why       error         // why the last attempt came to nothing before its callers knew; nil: it is not known
	holders   []core.Holder // of other processes, that were in the way last
	contended bool          // others waited when the last lease was released
	delays    int           // attempts in a row that came to nothing
	block     int           // for how many passes the last uncontended attempt wanted tokens
}

// enqueue queues w, and returns an error if it may not wait.
func (e *entry) enqueue(w *waiter) error {
	holders, held := e.knownHolders()
	waiting := e.n
	if e.lease == nil && e.release == nil && !held && waiting > 0 {
		waiting-- // who may have the lock at once
	}
	switch most := w.req.MaxWaiters; {
	case w.req.Wait == 0 && held:
		return busy(holders)
	case most > 0 && waiting >= most:
		return &core.AcquireError{Err: fmt.Errorf("%w: %d wait already", core.ErrTooManyWaiters, waiting), Holders: holders}
	}
	e.waiters.Push(w)
	e.n++
	e.joined++
	w.seq = e.joined
	if a := e.attempt; a != nil && a.phase == pauses && w.isHurried() {
		a.stopTimer()
		a.begin() // it does not wait for nodes that are away, but wants to know whether they still are
	}
	return nil
}

// knownHolders returns the holders as far as they are known, and whether the lock is certainly held.
func (e *entry) knownHolders() (holders []core.Holder, held bool) {
	switch {
	case e.lease != nil:
		return e.lease.describe(), true
	case e.attempt != nil && e.attempt.isRefused:
		return e.holders, true
	}
	return nil, false
}

// busy returns the error of a caller that the holders are in the way of.
func busy(holders []core.Holder) *core.AcquireError {
	return &core.AcquireError{Err: core.ErrBusy, Holders: holders, RetryAfter: core.RetryAfter(holders)}
}

// start makes an attempt if one is needed.
func (e *entry) start() {
	if e.attempt != nil || e.lease != nil || e.release != nil {
		return
	}
	if e.leader() == nil {
		e.tidy()
		return
	}
	a := &attempt{e: e, begun: time.Now(), ballots: make([]*ballot, len(e.l.nodes))}
	e.attempt, e.why = a, nil
	a.begin()
}

// leader returns the first waiter that is not about to leave, nil if there is none.
func (e *entry) leader() *waiter {
	for w := range e.waiters.All() {
		if !w.ended() {
			return w
		}
	}
	return nil
}

// waits reports whether somebody wants more than one try.
func (e *entry) waits() bool {
	for w := range e.waiters.All() {
		if w.req.Wait != 0 && !w.ended() {
			return true
		}
	}
	return false
}

// finish ends the wait of w.
func (e *entry) finish(w *waiter, h *hold, err error) {
	e.waiters.Remove(w)
	e.n--
	w.finish(h, err)
}

// failAll ends all waits, or those that fail says.
func (e *entry) failAll(err error, fail func(*waiter) bool) {
	for w := range e.waiters.All() {
		if fail == nil || fail(w) {
			e.finish(w, nil, err)
		}
	}
}

// notify lets every waiter know what it waits for.
func (e *entry) notify(wait core.Wait) {
	if wait.Holders != nil {
		e.holders = wait.Holders
	}
	for w := range e.waiters.All() {
		w.notify(wait)
	}
}

// abandon ends the attempt if nobody waits for it any more.
func (e *entry) abandon() {
	if a := e.attempt; a != nil && e.n == 0 {
		a.end()
		drop(a.ballots)
	}
	e.tidy()
}

// tidy removes the entry if it is not used.
func (e *entry) tidy() {
	if e.n == 0 && e.attempt == nil && e.lease == nil && e.release == nil && e.l.entries[e.key] == e {
		delete(e.l.entries, e.key)
	}
}
