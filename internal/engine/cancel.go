package engine

import (
	"context"
	"time"

	"github.com/lockmw/go/internal/script"
)

// A cancellation has the server forget an id, whether it is queued, holds the lock, or its acquire
// is still on the way. It is tried again until the server has confirmed it, or the id must have
// expired by itself.
type cancellation struct {
	e    *Engine
	name script.KeySet
	unwanted
	until instant
	delay time.Duration
	timer timer
}

// An unwanted id is one that the server is to forget.
type unwanted struct {
	id       string
	lease    time.Duration // which a hold of it may have
	mark     bool          // the id is to be refused from now on
	ticket   string        // whose place in the queue is kept
	keep     time.Duration // by how long; 0: it is not
	endPlace bool          // the place ends instead if the id held the lock
}

const (
	cancelTimeout  = 2 * time.Second
	minCancelDelay = 50 * time.Millisecond
	maxCancelDelay = 2 * time.Second
)

// cancel has the server forget an id.
func (e *Engine) cancel(n script.KeySet, u unwanted) {
	c := &cancellation{e: e, name: n, unwanted: u, until: e.now() + u.lease + script.AcceptWindow, delay: minCancelDelay}
	c.timer.owner = c
	c.send()
}

func (c *cancellation) send() {
	ctx, cancel := context.WithTimeout(c.e.sender.Context(), cancelTimeout)
	run := script.Cancel{
		Keys: &c.name, ID: c.id, Mark: c.mark, Place: c.ticket, KeepPlace: c.keep, EndPlace: c.endPlace,
	}
	c.e.sender.Start(run.Call(ctx, c.e.scripts, func(a *script.Reply) {
		cancel()
		c.answered(a)
	}))
}

func (c *cancellation) answered(a *script.Reply) {
	e := c.e
	switch outcome, err := a.Cancelled(); {
	case err == nil:
		if outcome == script.More {
			e.settle(c.name)
		}
	case e.sender.Context().Err() != nil:
	case script.IsFinal(err) || e.now() > c.until:
		e.cfg.Logger.Warn("lockmw: a lock that is not wanted any more could not be released; it frees itself when its lease runs out",
			"key", c.name.Holder(), "error", err)
	default:
		e.schedule.set(&c.timer, e.now()+c.delay, 0)
		c.delay = min(2*c.delay, maxCancelDelay)
	}
}

// settle has the server look after a queue once more: it had more dead tickets than one run removes.
func (e *Engine) settle(n script.KeySet) {
	p := script.Poll{Keys: &n, Subscribed: e.inbox.live.Load()}
	e.sender.Start(p.Call(e.sender.Context(), e.scripts, func(reply *script.Reply) {
		if a, err := reply.Polled(0, e.layout.InboxPrefix()); err == nil && a.More {
			e.settle(n)
		}
	}))
}
