package inproc

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
)

// notifyInterval is the shortest interval between notifications of the waiters' positions. So a queue that moves constantly costs
// little, however long it is.
const notifyInterval = 750 * time.Millisecond

// A waiter is a call that waits. It implements localq.Line.
type waiter struct {
	*localq.Waiter
	locks  *Locks
	entry  *entry
	place  int64
	ticket string // for deadlock detectors; "": not yet requested
}

// A queue has waiters in the order of their places. Calls that share a kept place are in the order of arrival.
type queue []*waiter

// before returns the number of waiters with a smaller place.
func (q queue) before(place int64) int {
	n, _ := slices.BinarySearchFunc(q, place, func(w *waiter, place int64) int { return cmp.Compare(w.place, place) })
	return n
}

func (q queue) index(w *waiter) int {
	i := q.before(w.place)
	for q[i] != w {
		i++
	}
	return i
}

func (q *queue) add(w *waiter) { *q = slices.Insert(*q, q.before(w.place+1), w) }

func (q *queue) remove(w *waiter) {
	i := q.index(w)
	*q = slices.Delete(*q, i, i+1)
}

// pop removes the first waiter, without moving the rest.
func (q *queue) pop() *waiter {
	w := (*q)[0]
	(*q)[0] = nil
	*q = (*q)[1:]
	return w
}

func (e *entry) queueOf(mode core.Mode) *queue {
	if mode == core.Read {
		return &e.readers
	}
	return &e.writers
}

func (e *entry) waiting() int { return len(e.writers) + len(e.readers) }

// position returns the position of w: 1 plus the number of waiters before it, in both queues.
func (e *entry) position(w *waiter) int {
	if w.Req.Mode == core.Read {
		return e.readers.index(w) + e.writers.before(w.place) + 1
	}
	return e.writers.index(w) + e.readers.before(w.place) + 1
}

// enqueue makes r a waiter in its place.
func (l *Locks) enqueue(ctx context.Context, e *entry, r *core.Request) *waiter {
	w := &waiter{Waiter: localq.NewWaiter(ctx, r, clock.Now()), locks: l, entry: e, place: e.placeOf(r)}
	e.queueOf(r.Mode).add(w)
	if r.Place != "" {
		e.occupyPlace(r.Place, w.place)
		l.notifyLater(e) // for the waiters behind a kept place
	}
	return w
}

// notifyLater notifies the waiters of their positions after a delay, because more may move in the meantime.
func (l *Locks) notifyLater(e *entry) {
	if e.notifying || e.waiting() == 0 {
		return
	}
	e.notifying = true
	time.AfterFunc(notifyInterval, func() { l.notify(e) })
}

func (l *Locks) notify(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.notifying = false
	if e.waiting() == 0 {
		return
	}
	snapshot := core.Wait{Holders: e.holders(), Queued: e.waiting()}
	for _, q := range []queue{e.writers, e.readers} {
		for _, w := range q {
			snapshot.Position = e.position(w)
			w.Notify(snapshot)
		}
	}
}
