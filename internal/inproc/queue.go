package inproc

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockmw/go/internal/core"
)

// tellInterval is how often those who wait are told at most that they have moved: a queue that moves
// at every instant costs little then, however long it is.
const tellInterval = 750 * time.Millisecond

// A waiter is a call that waits.
type waiter struct {
	req   *core.Request
	place int64
	ready chan *grant    // has room for one
	news  chan core.Wait // has room for the latest
}

// A queue has waiters in the order of their places; of equal places, which calls with the same ticket
// have, in that of their arrival.
type queue []*waiter

// before returns how many have a smaller place.
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

// pop removes the first one, without moving the rest.
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

// position returns how many came before w, and w itself.
func (e *entry) position(w *waiter) int {
	if w.req.Mode == core.Read {
		return e.readers.index(w) + e.writers.before(w.place) + 1
	}
	return e.writers.index(w) + e.readers.before(w.place) + 1
}

// enqueue has r wait in its place.
func (l *Locks) enqueue(e *entry, r *core.Request) *waiter {
	w := &waiter{req: r, place: e.placeOf(r), ready: make(chan *grant, 1), news: make(chan core.Wait, 1)}
	e.queueOf(r.Mode).add(w)
	if r.Ticket != "" {
		e.use(r.Ticket, w.place)
		l.moved(e) // those behind a place that was kept
	}
	return w
}

// moved has those who wait told where they are now, but not at once: more may move meanwhile.
func (l *Locks) moved(e *entry) {
	if e.telling || e.waiting() == 0 {
		return
	}
	e.telling = true
	time.AfterFunc(tellInterval, func() { l.tell(e) })
}

func (l *Locks) tell(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.telling = false
	if e.waiting() == 0 {
		return
	}
	seen := core.Wait{Holders: e.holders(), Queued: e.waiting()}
	for _, q := range []queue{e.writers, e.readers} {
		for _, w := range q {
			select {
			case <-w.news: // older, and not read yet
			default:
			}
			seen.Position = e.position(w)
			w.news <- seen
		}
	}
}
