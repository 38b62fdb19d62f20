package lockmw

import (
	"context"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inside"
)

// kindLockerOf returns what l takes its locks with, if it is known. A type that embeds a Locker of this module may have a
// Lock of its own, and is not known.
func kindLockerOf(l Locker) *kindLocker {
	if k, ok := l.(*kindLocker); ok {
		return k
	}
	if inside.IsEmbedded(l) {
		return nil
	}
	k, _ := inside.PartOf(l).(*kindLocker)
	return k
}

// takeInTrips takes the locks of keys in as few trips as possible, and returns the keys that are left to be taken one after
// the other. Each trip is all or none, and does not wait. So no lock is waited for while one of a greater key is held: what
// is held are locks that the caller's context had before, and of smaller keys.
func (c *allCall) takeInTrips(l *kindLocker, keys []string) (left []string, err error) {
	many, ok := l.locks.(core.ManyLocks)
	if !ok || l.kind.Mode == core.Read || l.kind.Permits > 0 {
		return keys, nil
	}
	policy, err := l.policyFor(c.opts)
	if err != nil || policy.once() || policy.leads || c.ctx.Err() != nil {
		return keys, nil //nolint:nilerr // Lock will say so
	}
	nested, left := l.split(c.ctx, keys)
	if err := c.takeEach(nested); err != nil {
		return nil, err
	}
	for len(left) > 1 {
		part := left[:min(len(left), core.MaxTogether)]
		taken, err := c.makeTrip(l, many, &policy, part)
		left = left[taken:]
		if err != nil || taken < len(part) {
			return left, err
		}
	}
	return left, nil
}

// split divides keys into those whose locks ctx may carry, and others.
func (l *kindLocker) split(ctx context.Context, keys []string) (nested, others []string) {
	outer, _ := FromContext(ctx)
	if outer == nil {
		return nil, keys
	}
	for _, key := range keys {
		h := outer
		for h != nil && !(h.lock.isOf(l.locks) && h.lock.req.Key == key) {
			h = h.outerIn(ctx)
		}
		if h != nil {
			nested = append(nested, key)
		} else {
			others = append(others, key)
		}
	}
	return nested, others
}

// makeTrip takes the locks of keys at once, or the first of them only if it has to be waited for or cannot be had together
// with the others. It returns how many it has taken. Observers learn of one attempt after the other, as with Lock: the
// first one has the trip, and its traceparent is stored with all locks.
func (c *allCall) makeTrip(l *kindLocker, many core.ManyLocks, p *Policy, keys []string) (taken int, err error) {
	outer, _ := FromContext(c.ctx)
	owner, op := ownerOf(outer), p.op()
	attempts, requests := make([]attempt, len(keys)), make([]*core.Request, len(keys))
	for i, key := range keys {
		attempts[i] = l.newAttempt(p, op, key, owner)
		requests[i] = &attempts[i].held.req
	}
	first := &attempts[0]
	first.begin(c.ctx)
	for _, r := range requests {
		r.Trace = first.held.req.Trace
	}
	holds, err := many.AcquireAll(first.observed, requests)
	if err != nil {
		return c.tookFirst(first.end(nil, err))
	}
	if holds == nil {
		if c.wait > 0 {
			first.held.req.Wait = c.waitLeft()
		}
		return c.tookFirst(first.end(l.locks.Acquire(first.observed, requests[0])))
	}
	for i := range attempts {
		a := &attempts[i]
		if i > 0 {
			a.observe(c.ctx)
			a.start = first.start
		}
		_ = c.took(a.end(holds[i], nil)) // which is no failure
	}
	return len(keys), nil
}

// tookFirst deals with what came of the first of several attempts.
func (c *allCall) tookFirst(ctx context.Context, h *Hold, err error) (taken int, _ error) {
	if err := c.took(ctx, h, err); err != nil {
		return 0, err
	}
	return 1, nil
}
