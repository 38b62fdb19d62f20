package engine

import (
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
)

// Readers of one process share a lease. Further readers join it without a command as long as no writer
// waits. The server's word for that is good for a short time, and only while a message would reach the
// process if a writer came. After that the next reader renews the lease, and the answer says it anew. When
// a writer waits, no more readers join: they send a request of their own, which is queued (rule 12 of
// docs/protocol.md).

// shareFor is how long the server's word that no writer waits is good.
const shareFor = 100 * time.Millisecond

// joinLease gives r a share in the lease of its cohort; nil if that needs a command.
func (c *cohort) joinLease(r *core.Request) *hold {
	l := c.lease
	if l == nil || !c.isShared() || c.waiters.Len > 0 || c.e.closing.Load() {
		return nil
	}
	now := clock.Now()
	if now >= l.shareUntil || l.subscription != c.slot.inbox.Subscription() || !l.isFresh(now) {
		return nil
	}
	return l.newHold(r, l.tokens.Next(), now)
}

// checkForWriters renews the lease at once: the answer says whether more readers may join.
func (l *lease) checkForWriters() {
	e := l.c.e
	e.inboxes.Use(l.c.slot.inbox)
	if !l.checking {
		l.checking, l.c.sentAt = true, clock.Now()
		l.renewAfter(l.c.sentAt, 0)
		l.reschedule()
	}
}

// A snapshot is what was known when a call was sent that asks whether a writer waits.
type snapshot struct {
	joined       int64 // how many callers had joined the cohort
	subscription int64 // the number of the subscription; 0: none
}

func (c *cohort) snapshot() snapshot {
	return snapshot{c.waiters.Joined, c.slot.inbox.Subscription()}
}

// admit gives waiters a share in the lease. Those that joined later than the given number go on waiting.
func (c *cohort) admit(l *lease, joined int64) {
	for c.waiters.Len > 0 && c.waiters.First().Seq <= joined {
		w := c.waiters.First()
		c.finish(w, l.newHold(w.Req, l.tokens.Next(), clock.Now()), nil)
	}
}

// onChecked deals with an answer that says whether a writer waits: one does if the lease is contended. The
// call was sent at the time given, and q is what was known then.
func (l *lease) onChecked(sent clock.Instant, q snapshot) {
	c := l.c
	l.checking = false
	switch {
	case l.contended:
		l.stopSharing()
		return
	case c.lease != l:
		return
	}
	if q.subscription != 0 {
		l.shareUntil, l.subscription = sent.Add(shareFor), q.subscription
	}
	if clock.Now() < sent.Add(shareFor) {
		q.joined = c.waiters.Joined // the answer is good for callers that have joined since
	}
	c.admit(l, q.joined)
	if c.waiters.Len > 0 {
		l.checkForWriters()
	}
}

// stopSharing lets no more readers join the lease. If it was kept for those who wait, and nobody reads by it any more,
// their request ends it: a release that came on its own might be late, and the lock be busy when nobody has it.
func (l *lease) stopSharing() {
	c := l.c
	l.shareUntil = 0
	if c.lease != l {
		return
	}
	c.lease = nil
	var p *script.Predecessor
	if l.holds.First() == nil {
		l.detach(nil)
		p = &script.Predecessor{ID: l.id, Lease: l.duration}
	}
	c.sendRequest(p)
}

// cancelLeaseIfUnused cancels a lease that was kept for a caller who has gone.
func (c *cohort) cancelLeaseIfUnused() {
	if l := c.lease; l != nil && c.isShared() && c.waiters.Len == 0 && l.holds.First() == nil {
		l.detach(nil)
		l.cancel()
	}
}
