package quorum

import (
	"context"
	"fmt"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/list"
)

// A waiter is one call of Acquire. The mutex of Locks guards it, except for ctx and req.
type waiter struct {
	ctx   context.Context
	req   *core.Request
	begun time.Time
	seq   int64 // its number among all callers of the entry

	list.Links[*waiter]
	notified               bool // the caller knows, or is about to learn, that it has to wait
	notifyWait, notifyMove bool
	wait                   core.Wait
	over                   bool
	hold                   *hold
	err                    error
	signal                 chan struct{} // first a notification, then hold or err; has room for both
}

func newWaiter(ctx context.Context, r *core.Request) *waiter {
	return &waiter{ctx: ctx, req: r, begun: time.Now(), signal: make(chan struct{}, 2)}
}

// ended reports whether the context has ended or its deadline has passed.
func (w *waiter) ended() bool {
	select {
	case <-w.ctx.Done():
		return true
	default:
	}
	deadline, ok := w.ctx.Deadline()
	return ok && !time.Now().Before(deadline)
}

// isHurried reports whether w does not wait for nodes that are away.
func (w *waiter) isHurried() bool {
	return w.req.Wait == 0 || w.req.FailOpen || w.req.Once || w.req.Leads
}

func (w *waiter) finish(h *hold, err error) {
	w.hold, w.err, w.over = h, err, true
	w.signal <- struct{}{}
}

// notify lets the caller know, in its own goroutine, who is in the way, and later how it moves up.
func (w *waiter) notify(wait core.Wait) {
	pending := w.notifyWait || w.notifyMove
	switch {
	case w.req.Wait == 0:
		return
	case !w.notified:
		w.notified, w.notifyWait = true, true
	case w.req.WantsMoves && wait.Position != 0 && wait.Position != w.wait.Position:
		w.notifyMove = !w.notifyWait
	default:
		return
	}
	w.wait = wait
	if !pending {
		w.signal <- struct{}{}
	}
}

// await returns when the lock is granted, the time is over or the context ends.
func (w *waiter) await(e *entry) (*hold, error) {
	var limit <-chan time.Time
	if wait := w.req.Wait; wait != core.Forever {
		if wait == 0 {
			wait = tryPatience
		}
		timer := time.NewTimer(wait - time.Since(w.begun))
		defer timer.Stop()
		limit = timer.C
	}
	var stalled <-chan struct{}
	if w.req.Wait > core.StallAfter {
		stalled = e.l.stalls.Next(clock.Now()).Done()
	}
	for {
		select {
		case <-w.signal:
			if h, err := w.takeNews(e); h != nil || err != nil {
				return h, err
			}
		case <-stalled:
			stalled = nil
			w.reportStall(e)
		case <-limit:
			return nil, w.giveUp(e, nil)
		case <-w.ctx.Done():
			return nil, w.giveUp(e, w.ctx.Err())
		}
	}
}

// tryPatience is how long a call that only tries waits for nodes at most.
const tryPatience = 2 * time.Second

// takeNews returns how the wait has ended, if it has, and else calls the caller's events.
func (w *waiter) takeNews(e *entry) (*hold, error) {
	e.l.mu.Lock()
	h, err, newWait, moved, wait := w.hold, w.err, w.notifyWait, w.notifyMove, w.wait
	w.notifyWait, w.notifyMove = false, false
	e.l.mu.Unlock()
	switch {
	case newWait:
		w.req.Events.Contended(wait)
	case moved && h == nil && err == nil:
		w.req.Events.Waiting(wait)
	}
	return h, err
}

// reportStall lets the caller know if a hold of this process has been in its way since it began to wait.
func (w *waiter) reportStall(e *entry) {
	e.l.mu.Lock()
	h := e.holder.Load()
	stalls := !w.over && h != nil && !h.since.After(w.begun)
	e.l.mu.Unlock()
	if stalls {
		w.req.Events.Stalled(core.LocalHold{Request: h.req, Token: h.token, Since: h.since})
	}
}

// giveUpPatience is how long a cancelled call may take to release a hold that it was given meanwhile.
const giveUpPatience = 30 * time.Millisecond

// giveUp ends the wait, because its time is over or its context ended. A hold that w was given in this instant is released.
func (w *waiter) giveUp(e *entry, ended error) error {
	e.l.mu.Lock()
	if w.hold != nil {
		w.hold.abandoned = true
		e.l.mu.Unlock()
		_, _ = w.hold.Release(giveUpPatience) // what fails is tried again in the background
		if ended == nil {
			return busy(nil)
		}
		return &core.AcquireError{Err: fmt.Errorf("%w: %w", core.ErrBusy, ended)}
	}
	defer e.l.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	err := e.waitError()
	if ended != nil {
		err.Err = fmt.Errorf("%w: %w", err.Err, ended)
	}
	e.waiters.Remove(w)
	e.n--
	w.over = true
	e.abandon()
	return err
}

// waitError returns the error of a caller whose wait ended.
func (e *entry) waitError() *core.AcquireError {
	why := e.why
	if a := e.attempt; a != nil {
		why = a.whyInVain()
	}
	if why != nil {
		return &core.AcquireError{Err: why}
	}
	holders, _ := e.knownHolders()
	return busy(holders)
}
