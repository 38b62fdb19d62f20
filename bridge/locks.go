package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
	"github.com/lockmw/go/internal/pause"
	"github.com/lockmw/go/internal/transport"
)

// locks take the lock of lockmw first and then its old key. They implement core.Locks.
type locks struct {
	inner   core.Locks
	lib     library
	servers []redis.Scripter // with the old keys; a hold needs a majority of the keys of all servers

	oldKeyBusy atomic.Int64   // calls that found the old key taken
	background sync.WaitGroup // frees holds whose callers do not wait for it
	closed     context.Context
	end        context.CancelFunc // of closed, by Close
}

var errRecord = fmt.Errorf("package idempotency over a bridge: give it the Client: %w", errors.ErrUnsupported)

// Acquire implements core.Locks.
func (l *locks) Acquire(ctx context.Context, r *core.Request) (core.Hold, error) {
	if r.Record != nil {
		return nil, &core.AcquireError{Err: errRecord}
	}
	c := &call{locks: l, req: r, ctx: ctx, ends: time.Now().Add(tryPatience)}
	if r.Wait != 0 && r.Wait != core.Forever {
		c.ends = time.Now().Add(r.Wait)
	}
	for {
		h, err := c.takeBoth()
		if h != nil || err != nil {
			return h, err
		}
	}
}

// CheckTimes implements core.LimitedLocks.
func (l *locks) CheckTimes(lease, minHold time.Duration) error {
	if limited, ok := l.inner.(core.LimitedLocks); ok {
		return limited.CheckTimes(lease, minHold)
	}
	return nil
}

// A call takes one lock.
type call struct {
	locks    *locks
	req      *core.Request
	ctx      context.Context
	ends     time.Time   // when a call that does not wait forever gives up
	notified atomic.Bool // its caller knows that it waits
	counted  bool        // in oldKeyBusy
}

// tryPatience is how long a call that only tries waits for a server, as without a bridge.
const tryPatience = 2 * time.Second

// takeBoth takes the lock and then the old key. It returns no hold and no error if the lock was lost in the meantime, so that
// the call begins again.
func (c *call) takeBoth() (core.Hold, error) {
	h := newHold(c)
	inner, err := c.locks.inner.Acquire(c.ctx, h.innerRequest())
	if err != nil {
		return nil, err
	}
	h.inner = inner
	failed := c.takeOld(h)
	if failed == nil && h.begin() {
		return h, nil
	}
	lost := h.gone()
	h.giveUp()
	switch {
	case lost != nil && (errors.Is(lost, core.ErrClosed) || c.req.Wait == 0):
		return nil, &core.AcquireError{Err: lost}
	case lost != nil && c.ctx.Err() == nil && c.remaining() > 0:
		return nil, nil
	case failed == nil:
		failed = localq.WithContextErr(localq.Busy(nil), c.ctx.Err())
	}
	return nil, failed
}

// remaining returns how much longer the call may wait.
func (c *call) remaining() time.Duration {
	if c.req.Wait == core.Forever {
		return core.Forever
	}
	return max(time.Until(c.ends), 0)
}

// takeOld takes the old key of a hold that has the lock. It returns when the call has waited long enough, its context ends, or
// the lock is lost.
func (c *call) takeOld(h *hold) *core.AcquireError {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()
	if c.req.Wait != core.Forever {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadline(ctx, c.ends)
		defer stop()
	}
	var polls pace
	for {
		sent := clock.Now()
		t := h.old.take(ctx, c.req.Lease)
		h.leftovers = t.yes > 0 || t.err != nil
		if h.old.isLost(t) {
			t.err = nil // the key is taken, whatever the others answer
		}
		if h.old.isHeld(t) {
			h.setOldEnds(sent.Add(c.req.Lease - margin(c.req.Lease)))
			return c.refreshFixed(ctx, h, c.req.Lease/10)
		}
		if t.foreign > 0 && !c.counted {
			c.counted = true
			c.locks.oldKeyBusy.Add(1)
		}
		if t.yes > 0 { // of several keys
			_ = h.old.release(ctx, 0)
		}
		if err := c.waitOut(t); err != nil || !pause.For(ctx, polls.next(sent, t.left)) {
			return c.failure(h, t, clock.Since(sent))
		}
		if err := c.refreshFixed(ctx, h, c.req.Lease/2); err != nil {
			return err
		}
	}
}

// errTried ends a call that only tries.
var errTried = errors.New("a call that only tries does not wait")

// waitOut returns an error if the call must not wait after a try with that result. Otherwise its caller learns that it waits.
func (c *call) waitOut(t tally) error {
	switch {
	case c.req.Wait == 0:
		return errTried
	case t.err != nil && (c.req.FailOpen || !transport.IsTemporary(t.err)):
		return t.err
	case t.err == nil && !c.notified.Swap(true):
		c.req.Events.Contended(core.Wait{Holders: t.holders()})
	}
	return nil
}

// failure returns the error of a call whose last try had that result, and began that long ago.
func (c *call) failure(h *hold, t tally, tried time.Duration) *core.AcquireError {
	err := localq.Busy(t.holders())
	err.Err = h.old.err().busy()
	_, silent := errors.AsType[*unansweredError](t.err)
	if inTime := silent && tried < localq.SlowAnswer && (c.notified.Load() || c.ctx.Err() != nil); t.err != nil && !inTime {
		err = &core.AcquireError{Err: h.old.err().failed(t.err)}
	}
	return localq.WithContextErr(err, c.ctx.Err())
}

// refreshFixed starts a fixed lease again if the call has waited for more than spent of it.
func (c *call) refreshFixed(ctx context.Context, h *hold, spent time.Duration) *core.AcquireError {
	if !c.req.Fixed || h.inner.Deadline().IsZero() || clock.Until(h.inner.Deadline()) > c.req.Lease-spent {
		return nil
	}
	if err := h.inner.Extend(ctx, c.req.Lease); err != nil {
		return localq.WithContextErr(&core.AcquireError{Err: err}, c.ctx.Err())
	}
	return nil
}

// margin returns how much earlier the old key ends here than on its server, whose clock may be faster.
func margin(lease time.Duration) time.Duration { return lease/100 + 2*time.Millisecond }

// close ends the waits of holds that were lost, and returns when all of them are freed.
func (l *locks) close() {
	l.end()
	l.background.Wait()
}
