package localq

import (
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/list"
)

// A Queue is a list of calls in the order in which they joined it.
type Queue struct {
	list.List[*Waiter]
	Len    int   // calls that wait
	Tries  int   // of these, calls that only try
	Joined int64 // calls that have ever joined
}

// Push adds w at the end.
func (q *Queue) Push(w *Waiter) {
	q.List.Push(w)
	q.Len++
	q.Joined++
	w.Seq = q.Joined
	if w.OnlyTries() {
		q.Tries++
	}
}

// Remove removes w.
func (q *Queue) Remove(w *Waiter) {
	q.List.Remove(w)
	q.Len--
	if w.OnlyTries() {
		q.Tries--
	}
}

// Leader returns the first call whose context has not ended, or nil if there is none.
func (q *Queue) Leader() *Waiter {
	for w := range q.All() {
		if !w.HasEnded() {
			return w
		}
	}
	return nil
}

// Notify notifies all callers of what they wait for.
func (q *Queue) Notify(wait core.Wait) {
	for w := range q.All() {
		w.Notify(wait)
	}
}
