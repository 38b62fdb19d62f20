package engine

import (
	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/timers"
	"github.com/lockmw/go/internal/transport"
)

// Callers of the plain lock that wait for a holder of their own process have no ticket. The process tells the
// server how many they are, and since when the first of them waits if that is long, for who inspects the lock: with the acquire
// that goes out for the first of them, and by tell.lua when something has changed since. A ticket that several callers share says how many with its acquire
// and its polls (rule 10 of docs/protocol.md).

// tellAfter is how long after a change the server is told, at the latest, and tellSlack by how much sooner it may be.
// What changes in between costs nothing.
const (
	tellAfter = script.PollInterval
	tellSlack = tellAfter / 3
)

// A tally is how many callers wait behind a lease, as the server was told. The shard's mutex guards it.
type tally struct {
	lease *lease
	told  crowd        // which the server has confirmed
	runs  int          // of tell.lua so far
	timer timers.Timer // when to compare the crowd with what was told
	isSet bool         // the timer
}

// A crowd is the callers that wait behind a lease.
type crowd struct {
	calls int           // unknown if the server may have another number
	long  bool          // the first of them has waited for longWait
	since clock.Instant // when it began to; only if it is long
}

const (
	unknown  = -1
	longWait = core.StallAfter
)

// crowd returns who waits behind the lease now.
func (c *cohort) crowd() crowd {
	now := crowd{calls: c.waiters.Len}
	if w := c.waiters.First(); w != nil && clock.Since(w.Began) >= longWait {
		now.long, now.since = true, w.Began
	}
	return now
}

// hasChanged reports whether the server may have to be told of the crowd: soon, if nobody has waited for long yet.
func (t *tally) hasChanged() bool {
	w := t.lease.c.waiters.First()
	return t.told.calls != t.lease.c.waiters.Len || w != nil && (!t.told.long || t.told.since != w.Began)
}

// startTally begins the tally of a lease of which the server was told so many.
func (c *cohort) startTally(l *lease, told int) {
	if c.kind != passing {
		return // other callers have tickets
	}
	c.tally = &tally{lease: l, told: crowd{calls: told}}
	c.tally.timer.Of(c.tally)
}

// keepTally makes sure that the server is told who waits behind the lease.
func (c *cohort) keepTally() {
	if c.tally == nil {
		c.startTally(c.lease, 0)
	}
	if t := c.tally; t != nil && !t.isSet && t.hasChanged() {
		t.isSet = true
		c.e.schedule.SetAfter(&t.timer, tellAfter, tellSlack)
	}
}

// endTally ends the tally with its lease.
func (c *cohort) endTally() {
	if c.tally != nil {
		c.e.schedule.Remove(&c.tally.timer)
		c.tally = nil
	}
}

// Due tells the server of the crowd if that has changed.
func (t *tally) Due() {
	if k := t.due(); k != nil {
		t.lease.c.e.round.tells = append(t.lease.c.e.round.tells, k)
	}
}

// due is Due with the shard locked. It prepares a run of tell.lua; nil if the server knows the crowd already.
func (t *tally) due() *transport.Call {
	l, c := t.lease, t.lease.c
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	if l.over || !t.hasChanged() {
		t.isSet = false
		return nil
	}
	now := clock.Now()
	c.e.schedule.Set(&t.timer, now.Add(tellAfter), tellSlack) // whether or not this run is answered
	waiting := c.crowd()
	if t.told == waiting {
		return nil
	}
	t.told.calls = unknown
	t.runs++
	n := script.Tell{Keys: &c.keys, ID: l.id, Calls: waiting.calls, Number: t.runs}
	if waiting.long {
		n.Waited = now.Sub(waiting.since)
	}
	k := n.Call(c.e.sender.Context(), c.e.scripts, func(a *transport.Reply) { t.onTold(a, waiting, n.Number) })
	k.Timeout = script.PollInterval
	return k
}

// onTold deals with the answer to a run of tell.lua. If the lease is gone from the server, its renewal will say so.
func (t *tally) onTold(a *transport.Reply, waiting crowd, run int) {
	t.lease.c.shard.mu.Lock()
	defer t.lease.c.shard.mu.Unlock()
	if _, err := script.TellAnswer(a); err == nil && run == t.runs {
		t.told = waiting
	}
}
