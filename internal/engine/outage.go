package engine

import (
	"math/rand/v2"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
	"github.com/lockmw/go/internal/loglimit"
	"github.com/lockmw/go/internal/transport"
)

// An outage is the time in which the server cannot do what it is asked for: it is away, starts, fails over or is busy, or
// a Cluster moves the slot. Callers with time to wait wait for its end (rule 14 of docs/protocol.md).
type outage struct {
	tries  int           // that have failed so far
	since  clock.Instant // when the first one had
	paused bool          // before the next try
}

// The pauses between tries grow from one to the other.
const (
	minTryPause = 20 * time.Millisecond
	maxTryPause = 500 * time.Millisecond
)

// tryPause returns the pause after a number of tries that have failed. It is up to a quarter shorter at random, so that
// those who met the same outage do not all come back at once.
func tryPause(tries int) time.Duration {
	pause := min(minTryPause<<min(tries-1, 10), maxTryPause)
	return pause - rand.N(pause/4+1)
}

// note notes one more try that has failed, and returns for how long to pause.
func (o *outage) note(now clock.Instant) time.Duration {
	if o.tries == 0 {
		o.since = now
	}
	o.tries++
	return tryPause(o.tries)
}

// waitOut lets the request wait for the server after a try that failed with err, and ends the waits of those who do not
// want to. It reports whether it waits.
func (r *request) waitOut(err error) bool {
	c, e := r.c, r.c.e
	pause := r.outage.note(clock.Now())
	c.failHurried(err, clock.Since(r.outage.since) < quickMove)
	if c.waiters.Len == 0 || r.leader.HasEnded() {
		return false
	}
	r.lastErr, r.outage.paused = err, true
	e.schedule.SetAfter(&r.timer, pause, 0)
	return true
}

// quickMove is how long a call that only tries waits for a slot that moves.
const quickMove = 200 * time.Millisecond

// tryAgain sends a request once more under its id, as what became of it so far is not known.
func (r *request) tryAgain() {
	r.outage.paused = false
	r.send()
}

// failHurried ends the waits of callers that do not wait for a server that answers with err. A slot that moves is no outage
// to them as long as that is quick, and a pool of connections that is exhausted is none before the server was looked at.
func (c *cohort) failHurried(err error, quick bool) {
	moves, exhausted := transport.IsMoving(err), transport.IsPoolTimeout(err)
	c.failThose(transport.Failure(err), func(w *localq.Waiter) bool {
		return w.Req.Wait == 0 && !(moves && quick) || w.EndsWithOutage() && !moves && !exhausted
	})
}

// failThose ends the waits of those that are chosen. A caller whose context has ended is told so instead: a connection that heeds
// the context's deadline fails at the same time.
func (c *cohort) failThose(err error, chosen func(w *localq.Waiter) bool) {
	for w := range c.waiters.All() {
		if !w.HasEnded() && chosen(w) {
			c.removeWaiter(w)
			w.Finish(nil, &core.AcquireError{Err: err})
		}
	}
}

// findOutage looks, in the background, whether the pool of connections is exhausted because of an outage. Then it ends the waits
// of those who do not wait for its end.
func (e *Engine) findOutage(c *cohort, err error) {
	rdb, look := e.lookFor(c.key)
	look.tell(rdb, transport.Failure(err), func(explained error) {
		if core.FaultOf(explained) != core.Outage {
			return
		}
		c.shard.mu.Lock()
		defer c.unlock()
		c.failThose(explained, (*localq.Waiter).EndsWithOutage)
		c.dropUnwanted()
	})
}

// hurry ends the pause of the cohort's request for a caller that does not wait for the server, but wants to know
// whether it is still away.
func (c *cohort) hurry() {
	if r := c.request; r != nil && r.outage.paused {
		c.e.schedule.SetNow(&r.timer)
	}
}

// longOutage is after how long an outage is logged: a caller may wait for ever, and nobody would be told otherwise.
const longOutage = time.Second

// warnOfOutage logs that calls have been waiting for the server since then.
func (e *Engine) warnOfOutage(key string, since clock.Instant, err error) {
	if clock.Since(since) < longOutage {
		return
	}
	if missed, ok := e.outages.Allow(loglimit.KindOf(err)); ok {
		rdb, look := e.lookFor(key)
		look.tell(rdb, err, func(explained error) {
			e.cfg.Logger.Warn("lockmw: calls wait for the lock server", "since", since.Time(), "error", explained, "suppressed", missed)
		})
	}
}
