package engine

import (
	"time"

	"github.com/lockmw/go/internal/core"
)

// Readers of one process share a lease, which others join without a command as long as nobody waits to
// write. What is known of that is good for a short time, and only while the process would be told of
// somebody who comes; then the next one to join has it renewed, which says so anew. When somebody waits,
// the lease is left to those who have it, and others ask for one of their own, in the queue.

// shareFor is how long the server's word that nobody waits to write is good for.
const shareFor = 100 * time.Millisecond

// share lets r in on the lease that its cohort has, if that needs no command.
func (c *cohort) share(r *core.Request) *grant {
	l := c.lease
	if l == nil || !c.shares() || c.waiters.n > 0 || c.e.closing.Load() {
		return nil
	}
	now := c.e.now()
	if now >= l.shareUntil || l.subscription != c.e.inbox.subscription.Load() || !l.isFresh(now) {
		return nil
	}
	return l.grant(r, now)
}

// ask renews the lease in order to know whether it can be shared on.
func (l *lease) ask() {
	e := l.c.e
	e.inbox.start(e)
	if !l.asking {
		l.asking, l.c.asked = true, e.now()
		l.renewAfter(l.c.asked, 0)
		l.reschedule()
	}
}

// An inquiry is what there was when the server was asked whether somebody waits to write.
type inquiry struct {
	joined       int64 // how many had joined the cohort
	subscription int64 // 0: none
}

func (c *cohort) inquiry() inquiry {
	return inquiry{c.waiters.joined, c.e.inbox.subscription.Load()}
}

// letIn lets those that wait have a share in the lease, up to the one that joined as the given.
func (c *cohort) letIn(l *lease, joined int64) {
	for c.waiters.n > 0 && c.waiters.First().turn <= joined {
		w := c.waiters.pop()
		c.crowd.waits(-1)
		w.finish(l.grant(w.req, c.e.now()), nil)
	}
}

// shared deals with the answer to q, which was sent at that time: nobody waits to write, unless the
// lease is contended.
func (l *lease) shared(sent instant, q inquiry) {
	c := l.c
	l.asking = false
	switch {
	case l.contended:
		l.close()
		return
	case c.lease != l:
		return
	}
	if q.subscription != 0 {
		l.shareUntil, l.subscription = sent+shareFor, q.subscription
	}
	if c.e.now() < sent+shareFor {
		q.joined = c.waiters.joined // the answer is good enough for those that have come since
	}
	c.letIn(l, q.joined)
	if c.waiters.n > 0 {
		l.ask()
	}
}

// close leaves the lease to those who share it now.
func (l *lease) close() {
	c := l.c
	l.shareUntil = 0
	if c.lease != l {
		return
	}
	c.lease = nil
	if l.grants.First() == nil {
		l.drop(nil)
		l.forget()
	}
	c.ask(nil)
}

// releaseIfUnused releases a lease that was kept for somebody who has gone.
func (c *cohort) releaseIfUnused() {
	if l := c.lease; l != nil && c.shares() && c.waiters.n == 0 && l.grants.First() == nil {
		l.drop(nil)
		l.forget()
	}
}
