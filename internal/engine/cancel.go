package engine

import (
	"context"
	"time"
)

// A cancellation has the server forget an id, whether it is queued, holds the lock, or its acquire
// is still on the way. It is tried again until the server has confirmed it, or the id must have
// expired by itself.
type cancellation struct {
	e    *Engine
	name name
	unwanted
	until instant
	delay time.Duration
	timer timer
}

// An unwanted id is one that the server is to forget.
type unwanted struct {
	id     string
	lease  time.Duration // which a hold of it may have
	mark   bool          // the id is to be refused from now on
	ticket string        // whose place in the queue is kept
	keep   time.Duration // by how long; 0: it is not; negative: how long it is marked as over
}

const (
	cancelTimeout  = 2 * time.Second
	minCancelDelay = 50 * time.Millisecond
	maxCancelDelay = 2 * time.Second
)

// cancel has the server forget an id.
func (e *Engine) cancel(n name, u unwanted) {
	c := &cancellation{e: e, name: n, unwanted: u, until: e.now() + u.lease + acceptWindow, delay: minCancelDelay}
	c.timer.owner = c
	c.send()
}

func (c *cancellation) send() {
	n := &c.name
	ctx, cancel := context.WithTimeout(c.e.caller.ctx, cancelTimeout)
	five, args := n.keys(), []any{c.id, int64(0), c.keep.Milliseconds()}
	keys := append(five[:], n.done(c.id))
	if c.mark {
		args[1] = doneMillis
	}
	if c.keep != 0 {
		keys = append(keys, n.kept(c.ticket))
	}
	c.e.caller.start(newCall(ctx, c.e.scripts.cancel, keys, args, func(a *reply) {
		cancel()
		c.answered(a)
	}))
}

func (c *cancellation) answered(a *reply) {
	e := c.e
	switch kind := a.int(); {
	case a.err == nil:
		if kind == 2 {
			e.settle(c.name)
		}
	case e.caller.ctx.Err() != nil:
	case isFinal(a.err) || e.now() > c.until:
		e.cfg.Logger.Warn("lockmw: a lock that is not wanted any more could not be released; it frees itself when its lease runs out",
			"key", c.name.holder, "error", a.err)
	default:
		e.schedule.set(&c.timer, e.now()+c.delay, 0)
		c.delay = min(2*c.delay, maxCancelDelay)
	}
}

// settle has the server look after a queue once more: it had more dead tickets than one run removes.
func (e *Engine) settle(n name) {
	keys := n.keys()
	e.caller.start(newCall(e.caller.ctx, e.scripts.poll, keys[:], []any{e.inbox.flag()}, func(a *reply) {
		if more := a.int(); a.err == nil && more == 1 {
			e.settle(n)
		}
	}))
}
