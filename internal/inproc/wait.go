package inproc

import (
	"context"
	"sync"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/deadlock"
	"github.com/lockmw/go/internal/localq"
)

// await returns the hold of w, or the error that ended its wait.
func (w *waiter) await() (core.Hold, error) {
	var selfWait <-chan struct{}
	if w.Req.Wait > core.SelfWaitAfter {
		ctx, cancel := context.WithTimeout(context.Background(), core.SelfWaitAfter)
		defer cancel()
		selfWait = ctx.Done()
		defer w.checkForgotten().stop()
	}
	var found <-chan *core.DeadlockError
	if n := w.beginNested(); n != nil {
		defer n.end()
		found = n.Found
	}
	return w.Await(w, selfWait, found)
}

// Lock implements localq.Line.
func (w *waiter) Lock() { w.locks.mu.Lock() }

// Unlock implements localq.Line.
func (w *waiter) Unlock() { w.locks.mu.Unlock() }

// Busy implements localq.Line.
func (w *waiter) Busy() *core.AcquireError { return localq.Busy(w.entry.holders()) }

// WaitFailed implements localq.Line.
func (w *waiter) WaitFailed(*localq.Waiter) *core.AcquireError { return w.Busy() }

// Leave implements localq.Line.
func (w *waiter) Leave(*localq.Waiter) {
	l, e := w.locks, w.entry
	e.queueOf(w.Req.Mode).remove(w)
	l.keepPlace(e, w.Req, w.place)
	l.notifyLater(e)
	l.grantNext(e)
}

// GiveBack implements localq.Line: the next waiter receives the lock.
func (w *waiter) GiveBack(h core.Hold) {
	w.Lock()
	defer w.Unlock()
	w.locks.end(h.(*hold), nil)
}

// LocalBlocker implements localq.Line.
func (w *waiter) LocalBlocker() *core.LocalHold {
	w.Lock()
	defer w.Unlock()
	for _, h := range w.entry.holds {
		if !h.Over && !w.Began.Before(h.Since) {
			local := h.Local()
			return &local
		}
	}
	return nil
}

// pauses runs a function repeatedly while a call waits. Each pause before it is at least twice as long as the previous one.
type pauses struct {
	mu    sync.Mutex
	timer *time.Timer
	over  bool
}

func startPauses(first time.Duration, do func()) *pauses {
	p, next := &pauses{}, first
	p.mu.Lock() // until the timer is known
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(first, func() {
		do()
		next = max(2*next, deadlock.CheckInterval)
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.over && next <= longestPause {
			p.timer.Reset(next)
		}
	})
	return p
}

// stop ends the pauses; p may be nil.
func (p *pauses) stop() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.timer.Stop()
}
