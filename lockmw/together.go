package lockmw

import (
	"context"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inside"
)

// kindLockerOf returns the kindLocker with which l takes its locks, or nil if l is not a Locker of this module. A type that
// embeds such a Locker may have a Lock method of its own, so it is nil for that as well.
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

// takeTogether takes the locks of keys in as few round trips as possible, and returns the keys that remain to be taken one
// after the other. Each round trip takes all of its keys or none, and does not wait. So the call never waits for a key while
// it holds a greater one, except for keys that the caller's context held before.
func (c *allCall) takeTogether(l *kindLocker, keys []string) (left []string, err error) {
	many, ok := l.locks.(core.ManyLocks)
	if !ok || l.kind.Mode == core.Read || l.kind.Permits > 0 {
		return keys, nil
	}
	policy, err := l.Policy(c.opts...)
	if err != nil || policy.once() || policy.leads || c.ctx.Err() != nil {
		return keys, nil //nolint:nilerr // Lock will return it
	}
	nested, left := l.split(c.ctx, keys)
	if err := c.takeEach(nested); err != nil {
		return nil, err
	}
	for len(left) > 1 {
		part := left[:min(len(left), core.MaxTogether)]
		taken, err := c.takePart(l, many, &policy, part)
		left = left[taken:]
		if err != nil || taken < len(part) {
			return left, err
		}
	}
	return left, nil
}

// split divides keys into those whose locks ctx may carry, and the others.
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

// takePart takes the locks of keys together. If it cannot, it takes only the first one, and waits for it. It returns how many
// it has taken. Observers receive one attempt after the other, as with Lock: the first attempt includes the round trip, and
// its traceparent is stored with all locks.
func (c *allCall) takePart(l *kindLocker, many core.ManyLocks, p *Policy, keys []string) (taken int, err error) {
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
		return c.addFirst(first.end(nil, err))
	}
	if holds == nil {
		if c.wait > 0 {
			first.held.req.Wait = c.waitLeft()
		}
		return c.addFirst(first.end(l.locks.Acquire(first.observed, requests[0])))
	}
	for i := range attempts {
		a := &attempts[i]
		if i > 0 {
			a.observe(c.ctx)
			a.start = first.start
		}
		_ = c.add(a.end(holds[i], nil)) // it cannot fail
	}
	return len(keys), nil
}

// addFirst adds the result of the first of several attempts to the holds, and returns how many it added.
func (c *allCall) addFirst(ctx context.Context, h *Hold, err error) (taken int, _ error) {
	if err := c.add(ctx, h, err); err != nil {
		return 0, err
	}
	return 1, nil
}
