package engine

import (
	"context"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/list"
	"github.com/lockmw/go/internal/transport"
)

// A waiter is one call of Acquire. The shard's mutex guards it, except for ctx, done and req.
type waiter struct {
	ctx  context.Context
	done <-chan struct{} // of ctx
	req  *core.Request

	send *transport.Call // sent by the caller's own goroutine

	list.Links[*waiter]
	seq                    int64 // its number among all callers that joined the cohort
	notified               bool  // the caller knows, or is about to learn, that it has to wait
	notifyWait, notifyMove bool  // the caller is to learn that it has to wait, or that it has moved up
	wait                   core.Wait
	hold                   *hold
	err                    error
	signal                 chan struct{} // first a notification, then hold or err; has room for both
	startedAt              instant
}

func newWaiter(ctx context.Context, r *core.Request) *waiter {
	return &waiter{ctx: ctx, done: ctx.Done(), req: r, signal: make(chan struct{}, 2)}
}

// ended reports whether the context has ended or its deadline has passed: a connection may notice that before
// the context does. It may be called with the shard locked: unlike Err of a hold's context, Done and Deadline
// call no other code of this package.
func (w *waiter) ended() bool {
	select {
	case <-w.done:
		return true
	default:
	}
	deadline, ok := w.ctx.Deadline()
	return ok && !time.Now().Before(deadline)
}

// tryCount is 1 if w only tries, else 0.
func (w *waiter) tryCount() int {
	if w.req.Wait == 0 {
		return 1
	}
	return 0
}

// isHurried reports whether w does not wait for a server that is away: it only tries, goes on without the lock then, or
// tries again by itself.
func (w *waiter) isHurried() bool { return w.req.Wait == 0 || w.endsWithOutage() }

func (w *waiter) endsWithOutage() bool { return w.req.FailOpen || w.req.Once || w.req.Leads }

// isPatient reports whether only the answer can end the wait.
func (w *waiter) isPatient() bool {
	return w.done == nil && (w.req.Wait == 0 || w.req.Wait == core.Forever)
}

// finish ends the wait.
func (w *waiter) finish(h *hold, err error) {
	w.hold, w.err = h, err
	w.signal <- struct{}{}
}

// notify lets the caller know, in its own goroutine, who is in the way, and later how it moves up.
func (w *waiter) notify(wait core.Wait) {
	pending := w.notifyWait || w.notifyMove
	switch {
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

// tryPatience is how long a call that only tries waits for the server. With its defaults go-redis would wait
// for 10 s and more.
const tryPatience = 2 * time.Second

// await returns when the lock is granted, the time is over or the context ends.
func (w *waiter) await(c *cohort) (*hold, error) {
	select {
	case <-w.signal: // most waits are over at once
		if h, err := w.takeNews(c); h != nil || err != nil {
			return h, err
		}
	default:
	}
	var limit <-chan time.Time
	if wait := w.req.Wait; wait != core.Forever {
		if wait == 0 {
			wait = tryPatience - (c.e.now() - w.startedAt)
		}
		timer := time.NewTimer(wait)
		defer timer.Stop()
		limit = timer.C
	}
	var stalled <-chan struct{}
	if w.req.Wait > core.StallAfter {
		stalled = c.e.stalls.Next(c.e.epoch.Add(w.startedAt)).Done()
	}
	nested := c.beginNested(w)
	defer nested.end()
	for {
		select {
		case <-w.signal:
			if h, err := w.takeNews(c); h != nil || err != nil {
				return h, err
			}
		case d := <-nested.found():
			return c.endDeadlocked(w, d)
		case <-stalled:
			stalled = nil
			c.reportStall(w)
		case <-limit:
			return nil, c.giveUp(w, nil)
		case <-w.done:
			return nil, c.giveUp(w, w.ctx.Err())
		}
	}
}

// takeNews returns how the wait has ended, if it has, and else calls the caller's events.
func (w *waiter) takeNews(c *cohort) (*hold, error) {
	c.shard.mu.Lock()
	h, err, newWait, moved, wait := w.hold, w.err, w.notifyWait, w.notifyMove, w.wait
	w.notifyWait, w.notifyMove = false, false
	c.shard.mu.Unlock()
	switch {
	case newWait:
		w.req.Events.Contended(wait)
	case moved && h == nil && err == nil:
		w.req.Events.Waiting(wait)
	}
	return h, err
}

// A waiterList is the waiters of a cohort, in the order in which they joined it.
type waiterList struct {
	list.List[*waiter]
	n      int   // how many waiters there are
	tries  int   // how many only try
	joined int64 // how many ever joined
}

func (l *waiterList) push(w *waiter) {
	l.Push(w)
	l.n++
	l.joined++
	w.seq = l.joined
	l.tries += w.tryCount()
}

func (l *waiterList) pop() *waiter {
	w := l.First()
	l.remove(w)
	return w
}

func (l *waiterList) remove(w *waiter) {
	l.Remove(w)
	l.n--
	l.tries -= w.tryCount()
}
