package engine

import (
	"time"

	"github.com/lockmw/go/internal/loglimit"
	"github.com/lockmw/go/internal/script"
)

// A cancellation has the server forget an id, whether it is queued, holds the lock, or its acquire is still
// on the way. It is tried again until the server confirms it, or the id has expired by itself (rule 3 of
// docs/protocol.md).
type cancellation struct {
	e    *Engine
	keys script.KeySet
	cancelTarget
	until instant
	delay time.Duration
	timer timer
}

// A cancelTarget is an id that the server is to forget.
type cancelTarget struct {
	id        string
	lease     time.Duration // that a hold of the id may have
	mark      bool          // the id is to be refused from now on
	place     string        // the name of its kept place; "": none
	keepPlace time.Duration // for how long the place is kept from now on; 0: not at all
	permit    bool          // of a semaphore
	endPlace  int64         // the token of a hold whose place ends instead; 0: none
	served    []string      // ids of the run of its hold, which are forgotten, too
}

const (
	cancelTimeout  = 2 * time.Second
	minCancelDelay = 50 * time.Millisecond
	maxCancelDelay = 2 * time.Second
)

// cancelID has the server forget an id.
func (e *Engine) cancelID(n script.KeySet, u cancelTarget) {
	c := &cancellation{e: e, keys: n, cancelTarget: u, until: e.now() + u.lease + script.AcceptWindow, delay: minCancelDelay}
	c.timer.owner = c
	c.send()
}

func (c *cancellation) send() {
	run := script.Cancel{
		Keys: &c.keys, ID: c.id, Mark: c.mark, Place: c.place, KeepPlace: c.keepPlace, EndPlace: c.endPlace, Permit: c.permit, Served: c.served,
	}
	k := run.Call(c.e.sender.Context(), c.e.scripts, c.onCancelled)
	k.Limit = cancelTimeout
	c.e.sender.Start(k)
}

func (c *cancellation) onCancelled(a *script.Reply) {
	e := c.e
	switch outcome, err := a.Cancelled(); {
	case err == nil:
		if outcome == script.More {
			e.settle(c.keys, c.permit)
		}
	case e.sender.Context().Err() != nil:
	case script.IsFinal(err) || e.now() > c.until:
		c.warn(err)
	default:
		delay := c.delay
		c.delay = min(2*delay, maxCancelDelay) // before the next try, which reads it, can begin
		e.schedule.set(&c.timer, e.now()+delay, 0)
	}
}

// warn logs that the server may have the id until its lease is over.
func (c *cancellation) warn(err error) {
	if missed, ok := c.e.unreleased.Allow(loglimit.KindOf(err)); ok {
		c.e.cfg.Logger.Warn("lockmw: a lock that no caller wants any more could not be released; it becomes free when its lease runs out",
			"key", c.keys.Holder(), "error", err, "suppressed", missed)
	}
}

// settle sends a poll without tickets: there was more to do in a queue than one run of a script does.
func (e *Engine) settle(n script.KeySet, permits bool) {
	p := script.Poll{Keys: &n, Permits: permits, Subscribed: e.slotOf(&n).inbox.isLive()}
	e.sender.Start(p.Call(e.sender.Context(), e.scripts, func(reply *script.Reply) {
		if a, _ := reply.Polled(0, e.layout.InboxPrefix()); a.More {
			e.settle(n, permits)
		}
	}))
}
