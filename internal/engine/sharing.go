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
	return l.grant(r)
}

// ask renews the lease in order to know whether it can be shared on.
func (l *lease) ask() {
	e := l.c.e
	e.inbox.start(e)
	if !l.asking {
		l.asking = true
		l.renewAfter(e.now(), 0)
		l.reschedule()
	}
}

// letIn lets all that wait have a share in the lease, or has them ask for another.
func (c *cohort) letIn(l *lease) {
	for c.waiters.n > 0 {
		w := c.waiters.pop()
		c.crowd.waits(-1)
		w.finish(l.grant(w.req), nil)
	}
	if l.contended {
		l.close()
	}
}

// shared deals with the news whether somebody waits to write; subscription is the one that was there
// when the server was asked.
func (l *lease) shared(sent instant, subscription int64) {
	l.asking = false
	if l.contended {
		l.close()
		return
	}
	l.shareUntil, l.subscription = sent+shareFor, subscription
	if l.c.lease == l {
		l.c.letIn(l)
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
	if l.grants.n == 0 {
		l.drop(nil)
		l.forget()
	}
	c.ask(nil)
}

// releaseIfUnused releases a lease that was kept for somebody who has gone.
func (c *cohort) releaseIfUnused() {
	if l := c.lease; l != nil && c.shares() && c.waiters.n == 0 && l.grants.n == 0 {
		l.drop(nil)
		l.forget()
	}
}
