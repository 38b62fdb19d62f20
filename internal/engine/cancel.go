package engine

import (
	"context"
	"time"
)

// A cancellation has the server forget an id, whether it is queued, holds the lock, or its acquire
// is still on the way. It is tried again until the server has confirmed it, or the id must have
// expired by itself.
type cancellation struct {
	e     *Engine
	name  name
	id    string
	mark  bool // the id is to be remembered as over
	until instant
	delay time.Duration
	timer timer
}

const (
	cancelTimeout  = 2 * time.Second
	minCancelDelay = 50 * time.Millisecond
	maxCancelDelay = 2 * time.Second
)

// cancel has the server forget an id whose lease is as given, and refuse it from now on if mark says so.
func (e *Engine) cancel(n name, id string, lease time.Duration, mark bool) {
	c := &cancellation{e: e, name: n, id: id, mark: mark, until: e.now() + lease + acceptWindow, delay: minCancelDelay}
	c.timer.owner = c
	c.send()
}

func (c *cancellation) send() {
	n := &c.name
	ctx, cancel := context.WithTimeout(c.e.caller.ctx, cancelTimeout)
	four, args := n.keys(), []any{c.id}
	keys := four[:]
	if c.mark {
		keys, args = append(keys, n.done(c.id)), append(args, doneMillis)
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
