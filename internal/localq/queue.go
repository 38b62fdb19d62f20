package localq

import (
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/list"
)

// A Queue is calls in the order in which they joined it.
type Queue struct {
	list.List[*Waiter]
	Len    int   // how many wait
	Tries  int   // how many of them only try
	Joined int64 // how many ever joined
}

// Push adds w at the end.
func (q *Queue) Push(w *Waiter) {
	q.List.Push(w)
	q.Len++
	q.Joined++
	w.Seq = q.Joined
	if w.Tries() {
		q.Tries++
	}
}

// Remove takes w off.
func (q *Queue) Remove(w *Waiter) {
	q.List.Remove(w)
	q.Len--
	if w.Tries() {
		q.Tries--
	}
}

// Leader returns the first call that is not about to leave, nil if there is none.
func (q *Queue) Leader() *Waiter {
	for w := range q.All() {
		if !w.HasEnded() {
			return w
		}
	}
	return nil
}

// Notify lets every caller know what it waits for.
func (q *Queue) Notify(wait core.Wait) {
	for w := range q.All() {
		w.Notify(wait)
	}
}
