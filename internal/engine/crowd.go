package engine

import "github.com/lockmw/go/internal/core"

// A crowd is the cohorts of one key other than the plain lock's. The shard's mutex guards it; its
// methods do nothing if it is nil.
type crowd struct {
	cohorts int
	waiting int
	known   int                  // leases, and requests that are known to be queued
	readers map[*cohort]struct{} // cohorts whose members share a lease
}

func (c *cohort) joinCrowd() {
	if c.id.group == 0 {
		return
	}
	sh := c.shard
	if sh.crowds == nil {
		sh.crowds = make(map[string]*crowd)
	}
	c.crowd = sh.crowds[c.id.key]
	if c.crowd == nil {
		c.crowd = &crowd{readers: make(map[*cohort]struct{})}
		sh.crowds[c.id.key] = c.crowd
	}
	c.crowd.cohorts++
	if c.shares() {
		c.crowd.readers[c] = struct{}{}
	}
}

func (c *cohort) leaveCrowd() {
	if c.crowd == nil {
		return
	}
	delete(c.crowd.readers, c)
	c.crowd.cohorts--
	if c.crowd.cohorts == 0 {
		delete(c.shard.crowds, c.id.key)
	}
}

// waits notes that n more callers wait.
func (c *crowd) waits(n int) {
	if c != nil {
		c.waiting += n
	}
}

// knows notes that n more leases or queued requests are known.
func (c *crowd) knows(n int) {
	if c != nil {
		c.known += n
	}
}

// waiting is how many callers wait for the key. It leaves out those that may well get the lock at once:
// readers, and one other, as long as the server has not said that somebody is in their way.
func (c *cohort) waiting() int {
	waiting := c.waiters.n
	known := c.request == nil || c.request.queued
	if c.crowd != nil {
		waiting, known = c.crowd.waiting, c.crowd.known > 0
		for readers := range c.crowd.readers {
			if readers.areLetIn() {
				waiting -= readers.waiters.n
			}
		}
	}
	if !known && waiting > 0 {
		waiting--
	}
	return waiting
}

// areLetIn reports whether readers that wait are let in by the next answer, as far as it is known.
func (c *cohort) areLetIn() bool {
	if c.lease != nil {
		return !c.lease.contended
	}
	return c.request != nil && !c.request.queued
}

// refuseExcess refuses those of the readers that wait who would not have waited had it been known that
// somebody is in their way.
func (c *cohort) refuseExcess(holders []core.Holder) {
	waiting := c.waiting() - c.waiters.n
	for w := range c.waiters.All() {
		if most := w.req.MaxWaiters; most > 0 && waiting >= most {
			c.waiters.remove(w)
			c.crowd.waits(-1)
			w.finish(nil, tooMany(waiting, holders))
		} else {
			waiting++
		}
	}
}

// closeReaders has readers of this process stop to share what they have, since somebody waits to
// exclude them.
func (c *cohort) closeReaders() {
	if c.shares() {
		return
	}
	if crowd := c.shard.crowds[c.id.key]; crowd != nil {
		for reader := range crowd.readers {
			if reader.lease != nil {
				reader.lease.calledAt = c.e.now()
				reader.lease.isContended(true)
			}
		}
	}
}
