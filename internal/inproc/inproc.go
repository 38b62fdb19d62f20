// Package inproc implements locks within one process: first come, first served, and phase-fair
// between readers and writers (Brandenburg and Anderson, "Reader-Writer Synchronization for
// Shared-Memory Multiprocessor Real-Time Systems", 2009).
package inproc

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
)

// Locks implements core.Locks. The zero value is ready to use.
type Locks struct {
	mu    sync.Mutex
	keys  map[string]*entry
	token int64 // the greatest token so far
	ticks map[tickID]*tickNote
}

// An entry is the state of one key. It exists while the key is held or waited for, or a place in its queue is kept.
type entry struct {
	key       string
	holds     []*hold               // of readers, of a semaphore, or one that excludes all others
	phase     core.Mode             // of the holds, or of the last ones if there are none
	token     int64                 // of the latest hold that excluded others, and of the readers after it
	used      int                   // the weight of all permits
	slots     []bool                // the permit slots that are taken
	writers   queue                 // waiters of all modes but Read
	readers   queue                 // readers that wait because a writer holds the key or also waits for it
	last      int64                 // the place at the end of the queue
	places    map[string]*keptPlace // kept places, by name
	notifying bool                  // a notification of the waiters' positions is scheduled
}

// Acquire implements core.Locks.
func (l *Locks) Acquire(ctx context.Context, r *core.Request) (core.Hold, error) {
	l.mu.Lock()
	e := l.entry(r.Key)
	if err := e.checkKind(r); err != nil {
		l.mu.Unlock()
		return nil, err
	}
	if e.isFreeFor(r) {
		h := l.grant(e, r)
		l.mu.Unlock()
		return h, nil
	}
	found := e.findForgotten()
	if err := l.refuse(e, r); err != nil {
		l.mu.Unlock()
		l.reportForgotten(found)
		return nil, err
	}
	w := l.enqueue(ctx, e, r)
	snapshot := core.Wait{Holders: e.holders(), Position: e.position(w), Queued: e.waiting()}
	w.MarkNotified(snapshot)
	l.mu.Unlock()

	l.reportForgotten(found)
	r.Events.Contended(snapshot)
	return w.await()
}

func (l *Locks) entry(key string) *entry {
	if l.keys == nil {
		l.keys = make(map[string]*entry)
	}
	e := l.keys[key]
	if e == nil {
		e = &entry{key: key}
		l.keys[key] = e
	}
	return e
}

// isFreeFor reports whether another request need not wait. A key without holders has no waiters.
func (e *entry) isFreeFor(r *core.Request) bool {
	switch {
	case len(e.holds) == 0:
		return true
	case len(e.writers) > 0:
		return false
	}
	return r.Mode == core.Read && e.phase == core.Read || e.fits(r)
}

// refuse returns an error if r may not wait.
func (l *Locks) refuse(e *entry, r *core.Request) error {
	switch waiting := e.waiting(); {
	case r.Wait == 0:
		l.keepPlace(e, r, e.placeOf(r))
		return localq.Busy(e.holders())
	case r.MaxWaiters > 0 && waiting >= r.MaxWaiters:
		return localq.TooMany(waiting, e.holders())
	}
	return nil
}

// grantNext grants e to the next waiters. After a writer these are all waiting readers, after readers one writer. While readers
// hold the key, more are admitted unless a writer waits.
func (l *Locks) grantNext(e *entry) {
	held, reading := len(e.holds) > 0, e.phase == core.Read
	switch {
	case held && e.phase == core.Permit:
		l.grantPermits(e)
	case held && !reading:
	case len(e.readers) > 0 && (!reading || len(e.writers) == 0):
		l.admitReaders(e)
	case !held && len(e.writers) > 0:
		l.grantTo(e, e.writers.pop())
		l.grantPermits(e)
	case !held && len(e.places) == 0:
		delete(l.keys, e.key)
	}
}

func (l *Locks) admitReaders(e *entry) {
	readers := e.readers
	e.readers = nil
	for _, w := range readers {
		l.grantTo(e, w)
	}
}

func (l *Locks) grantTo(e *entry, w *waiter) {
	l.keepPlace(e, w.Req, w.place) // after a loss the call may return to it
	l.notifyLater(e)
	w.Finish(l.grant(e, w.Req), nil)
}

// shownHolders limits the holders in a snapshot, as on Redis.
const shownHolders = 8

// holders describes the holders of e.
func (e *entry) holders() []core.Holder {
	some := e.holds[:min(len(e.holds), shownHolders)]
	holders := make([]core.Holder, 0, len(some))
	for _, h := range some {
		holders = append(holders, h.describe())
	}
	return holders
}

// Expire ends the holds of key as lost.
func (l *Locks) Expire(key string) {
	var lost []*hold
	l.mu.Lock()
	if e := l.keys[key]; e != nil {
		for _, h := range slices.Clone(e.holds) {
			if !h.Over {
				e.endPlace(h.Req.Place)
				lost = append(lost, h)
			}
			l.end(h, core.ErrLost)
		}
	}
	l.mu.Unlock()
	for _, h := range lost {
		h.Req.Events.Lost(fmt.Errorf("%w: its lease ran out", core.ErrLost))
	}
}
