package engine

import (
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/loglimit"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/timers"
	"github.com/lockmw/go/internal/transport"
)

// A cancellation has the server end ids, whether they are queued, hold the lock, or their acquires are still
// on the way. It is tried again until the server confirms it, or the ids have expired by themselves (rule 3 of
// docs/protocol.md).
type cancellation struct {
	e         *Engine
	keys      script.KeySet
	permit    bool // of a semaphore
	prepare   prepareCall
	confirmed func(sent clock.Instant) // is called when the server has confirmed it, to a run that was sent then
	isHold    bool                     // of a lease that is not over
	failed    bool                     // for good
	until     clock.Instant
	delay     time.Duration
	timer     timers.Timer
}

// A cancelTarget is an id that the server is to forget.
type cancelTarget struct {
	key       lockKey
	id        string
	lease     time.Duration // that a hold of the id may have
	mark      bool          // the id is to be refused from now on
	place     string        // the name of its kept place; "": none
	keepPlace time.Duration // for how long the place is kept from now on; 0: not at all
	endPlace  int64         // the token of a hold whose place ends instead; 0: none
	served    []string      // ids of the run of its hold, which are forgotten, too
	isHold    bool          // of a lease that is not over
}

const (
	cancelTimeout  = 2 * time.Second
	minCancelDelay = 50 * time.Millisecond
	maxCancelDelay = 2 * time.Second
)

// cancelID has the server forget an id.
func (e *Engine) cancelID(n script.KeySet, u cancelTarget) {
	run := &script.Cancel{
		Keys: &n, ID: u.id, Mark: u.mark, Place: u.place, KeepPlace: u.keepPlace, EndPlace: u.endPlace, Permit: u.key.permit, Served: u.served,
	}
	confirmed := func(sent clock.Instant) { // it may have held the lock
		e.noteEnded(u.key, u.id)
		e.recovery.ended(sent)
		e.identity.ended(clock.Now())
	}
	e.cancel(&cancellation{keys: n, permit: u.key.permit, prepare: run.Call, confirmed: confirmed, isHold: u.isHold}, u.lease)
}

// cancel sends a cancellation of ids whose holds last no longer than a lease.
func (e *Engine) cancel(c *cancellation, lease time.Duration) {
	c.e, c.until, c.delay = e, clock.Now().Add(lease+script.AcceptWindow), minCancelDelay
	c.timer.Of(c)
	e.endings.begin(c.isHold)
	c.send()
}

// Due sends it again, or notes that its hold has expired.
func (c *cancellation) Due() {
	if c.failed {
		c.e.endings.expired()
	} else {
		c.send()
	}
}

func (c *cancellation) send() {
	k := c.prepare(c.e.sender.Context(), c.e.scripts, c.onCancelled)
	k.Limit = cancelTimeout
	c.e.sender.Start(k)
}

func (c *cancellation) onCancelled(a *transport.Reply) {
	e := c.e
	switch outcome, err := script.CancelAnswer(a); {
	case err == nil:
		c.confirmed(a.Sent)
		if outcome == script.More {
			e.settle(c.keys, c.permit)
		}
		e.endings.done(c.isHold)
	case e.sender.Context().Err() != nil: // Close has given up
	case transport.IsFinal(err) || clock.Now() > c.until:
		c.warn(err)
		e.endings.failed(err)
		if c.failed = true; c.isHold {
			e.schedule.Set(&c.timer, c.until, 0)
		}
		e.endings.giveUp()
	default:
		e.endings.failed(err)
		delay := c.delay
		c.delay = min(2*delay, maxCancelDelay) // before the next try, which reads it, can begin
		e.schedule.SetAfter(&c.timer, delay, 0)
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
	p := script.Poll{Keys: &n, Permits: permits, Subscribed: e.slotOf(&n).inbox.IsLive()}
	e.sender.Start(p.Call(e.sender.Context(), e.scripts, func(reply *transport.Reply) {
		if a, _ := script.PollAnswer(reply, 0, e.layout.InboxPrefix()); a.More {
			e.settle(n, permits)
		}
	}))
}
