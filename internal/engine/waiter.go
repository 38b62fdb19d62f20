package engine

import (
	"context"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/list"
	"github.com/lockmw/go/internal/script"
)

// A waiter is one call of Acquire. The shard's mutex guards all of it but its first three.
type waiter struct {
	ctx  context.Context
	done <-chan struct{} // of ctx
	req  *core.Request

	send *script.Call // to be run by the caller itself

	list.Links[*waiter]
	turn       int64 // in the order in which calls joined the cohort
	told       bool  // the caller knows, or is being told, that it has to wait
	tell, move bool  // it is to be told that it has to, or that it has moved up
	wait       core.Wait
	grant      *grant
	err        error
	signal     chan struct{} // that there is something to tell, and then grant or err; has room for both
	begun      instant
}

func newWaiter(ctx context.Context, r *core.Request) *waiter {
	return &waiter{ctx: ctx, done: ctx.Done(), req: r, signal: make(chan struct{}, 2)}
}

// ended reports whether the context has. It may be asked with locks held: unlike Err of a hold's
// context it calls nobody.
func (w *waiter) ended() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// tries is 1 if w does not wait for others.
func (w *waiter) tries() int {
	if w.req.Wait == 0 {
		return 1
	}
	return 0
}

// patient reports whether nothing can end the wait but the answer.
func (w *waiter) patient() bool {
	return w.done == nil && (w.req.Wait == 0 || w.req.Wait == core.Forever)
}

// finish ends the wait.
func (w *waiter) finish(g *grant, err error) {
	w.grant, w.err = g, err
	w.signal <- struct{}{}
}

// waits has the caller told, by its own goroutine, who is in the way, and then how it moves up.
func (w *waiter) waits(wait core.Wait) {
	pending := w.tell || w.move
	switch {
	case !w.told:
		w.told, w.tell = true, true
	case w.req.Moves && wait.Position != 0 && wait.Position != w.wait.Position:
		w.move = !w.tell
	default:
		return
	}
	w.wait = wait
	if !pending {
		w.signal <- struct{}{}
	}
}

// tryPatience is how long a call that does not wait for others waits for the server. go-redis would for
// 10 s and more if it is left to its defaults.
const tryPatience = 2 * time.Second

// await returns when the lock is granted, the time is over or the context ends.
func (w *waiter) await(c *cohort) (*grant, error) {
	select {
	case <-w.signal: // most often it is over before it has begun
		if g, err := w.news(c); g != nil || err != nil {
			return g, err
		}
	default:
	}
	var limit <-chan time.Time
	if wait := w.req.Wait; wait != core.Forever {
		if wait == 0 {
			wait = tryPatience - (c.e.now() - w.begun)
		}
		timer := time.NewTimer(wait)
		defer timer.Stop()
		limit = timer.C
	}
	for {
		select {
		case <-w.signal:
			if g, err := w.news(c); g != nil || err != nil {
				return g, err
			}
		case <-limit:
			return nil, c.giveUp(w, nil)
		case <-w.done:
			return nil, c.giveUp(w, w.ctx.Err())
		}
	}
}

// news returns how the wait has ended, or tells the caller that it has to wait.
func (w *waiter) news(c *cohort) (*grant, error) {
	c.shard.mu.Lock()
	g, err, tell, move, wait := w.grant, w.err, w.tell, w.move, w.wait
	w.tell, w.move = false, false
	c.shard.mu.Unlock()
	switch {
	case tell:
		w.req.Events.Contended(wait)
	case move && g == nil && err == nil:
		w.req.Events.Waiting(wait)
	}
	return g, err
}

// A waiterList is the waiters of a cohort, in the order in which they joined it.
type waiterList struct {
	list.List[*waiter]
	n      int   // how many there are
	tries  int   // how many of them only try
	joined int64 // how many ever joined
}

func (l *waiterList) push(w *waiter) {
	l.Push(w)
	l.n++
	l.joined++
	w.turn = l.joined
	l.tries += w.tries()
}

func (l *waiterList) pop() *waiter {
	w := l.First()
	l.remove(w)
	return w
}

func (l *waiterList) remove(w *waiter) {
	l.Remove(w)
	l.n--
	l.tries -= w.tries()
}
