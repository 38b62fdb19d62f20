package engine

import (
	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
)

// Siblings are the cohorts of one key, without that of the plain lock. The shard's mutex guards them. The
// methods of a nil *siblings do nothing.
type siblings struct {
	cohorts  int
	waiting  int
	known    int                  // how many leases there are, and requests that are known to be queued
	lease    *lease               // the latest; nil if it is over
	greatest int64                // the greatest token of the key since there have been siblings
	readers  map[*cohort]struct{} // cohorts whose callers share a lease

	queuedPermits int      // how many requests for permits are known to be queued
	scout         *request // the one of these that polls when a permit may end; nil: none
}

func (c *cohort) joinSiblings() {
	if c.id.group == 0 {
		return
	}
	sh := c.shard
	if sh.siblings == nil {
		sh.siblings = make(map[string]*siblings)
	}
	c.siblings = sh.siblings[c.id.key]
	if c.siblings == nil {
		c.siblings = &siblings{readers: make(map[*cohort]struct{})}
		sh.siblings[c.id.key] = c.siblings
	}
	c.siblings.cohorts++
	if c.isShared() {
		c.siblings.readers[c] = struct{}{}
	}
}

func (c *cohort) leaveSiblings() {
	if c.siblings == nil {
		return
	}
	delete(c.siblings.readers, c)
	c.siblings.cohorts--
	if c.siblings.cohorts == 0 {
		delete(c.shard.siblings, c.id.key)
	}
}

// addWaiting notes that n more callers wait.
func (c *siblings) addWaiting(n int) {
	if c != nil {
		c.waiting += n
	}
}

// addKnown notes that there are n more leases or queued requests.
func (c *siblings) addKnown(n int) {
	if c != nil {
		c.known += n
	}
}

// addLease notes that there is one more lease.
func (c *siblings) addLease(l *lease) {
	c.addKnown(1)
	if c != nil {
		c.lease = l
	}
}

// removeLease notes that a lease is over.
func (c *siblings) removeLease(l *lease) {
	c.addKnown(-1)
	if c != nil && c.lease == l {
		c.lease = nil
	}
}

// waiting returns how many callers wait for the key. It does not count callers that may get the lock at
// once: readers and one other caller, as long as no answer of the server says otherwise.
func (c *cohort) waiting() int {
	if c.isPermit() {
		return c.siblings.queuedPermits // the others may be granted one each
	}
	waiting := c.waiters.Len
	known := c.request == nil || c.request.queued
	if c.siblings != nil {
		waiting, known = c.siblings.waiting, c.siblings.known > 0
		for readers := range c.siblings.readers {
			if readers.willBeAdmitted() {
				waiting -= readers.waiters.Len
			}
		}
	}
	if !known && waiting > 0 {
		waiting--
	}
	return waiting
}

// willBeAdmitted reports whether the next answer admits the waiting readers, as far as it is known.
func (c *cohort) willBeAdmitted() bool {
	if c.lease != nil {
		return !c.lease.contended
	}
	return c.request != nil && !c.request.queued
}

// refuseExcess ends the waits of readers that are more than MaxWaiters allows. They were not refused at
// once, because the lock could have been free for readers.
func (c *cohort) refuseExcess(holders []core.Holder) {
	waiting := c.waiting() - c.waiters.Len
	for w := range c.waiters.All() {
		if most := w.Req.MaxWaiters; most > 0 && waiting >= most {
			c.removeWaiter(w)
			w.Finish(nil, localq.TooMany(waiting, holders))
		} else {
			waiting++
		}
	}
}

// stopSharingReaders stops readers of this process from sharing their leases, because a writer waits.
func (c *cohort) stopSharingReaders() {
	if c.isShared() {
		return
	}
	if all := c.shard.siblings[c.id.key]; all != nil {
		for reader := range all.readers {
			if reader.lease != nil {
				reader.lease.contendedAt = clock.Now()
				reader.lease.setContended(true)
			}
		}
	}
}
