package engine

import "github.com/lockmw/go/internal/script"

// Callers of the plain lock that wait for a holder of their own process have no ticket. The process tells the
// server how many they are, for who inspects the lock: with the acquire that goes out for the first of them, and
// by tell.lua when the number has changed since. A ticket that several callers share says how many with its acquire
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
	told  int   // which the server has confirmed; unknown if it may have another number
	runs  int   // of tell.lua so far
	timer timer // when to compare the number with what was told
	isSet bool  // the timer
}

const unknown = -1

// startTally begins the tally of a lease of which the server was told so many.
func (c *cohort) startTally(l *lease, told int) {
	if c.id.group != 0 {
		return // other callers have tickets
	}
	c.tally = &tally{lease: l, told: told}
	c.tally.timer.owner = c.tally
}

// keepTally makes sure that the server is told how many callers wait behind the lease.
func (c *cohort) keepTally() {
	if c.tally == nil {
		c.startTally(c.lease, 0)
	}
	if t := c.tally; t != nil && !t.isSet && t.told != c.waiters.n {
		t.isSet = true
		c.e.schedule.set(&t.timer, c.e.now()+tellAfter, tellSlack)
	}
}

// endTally ends the tally with its lease.
func (c *cohort) endTally() {
	if c.tally != nil {
		c.e.schedule.remove(&c.tally.timer)
		c.tally = nil
	}
}

// due is called when the timer is due. It prepares a run of tell.lua; nil if the server has the number already.
func (t *tally) due() *script.Call {
	l, c := t.lease, t.lease.c
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	calls := c.waiters.n
	if l.over || t.told == calls {
		t.isSet = false
		return nil
	}
	c.e.schedule.set(&t.timer, c.e.now()+tellAfter, tellSlack) // whether or not this run is answered
	t.told = unknown
	t.runs++
	n := script.Tell{Keys: &c.keys, ID: l.id, Calls: calls, Number: t.runs}
	k := n.Call(c.e.sender.Context(), c.e.scripts, func(a *script.Reply) { t.onTold(a, calls, n.Number) })
	k.Timeout = script.PollInterval
	return k
}

// onTold deals with the answer to a run of tell.lua. If the lease is gone from the server, its renewal will say so.
func (t *tally) onTold(a *script.Reply, calls, run int) {
	t.lease.c.shard.mu.Lock()
	defer t.lease.c.shard.mu.Unlock()
	if _, err := a.Told(); err == nil && run == t.runs {
		t.told = calls
	}
}
