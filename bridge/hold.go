package bridge

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
	"github.com/lockmw/go/internal/pause"
	"github.com/lockmw/go/internal/transport"
)

// A hold is the lock of lockmw together with its old key. It implements core.Hold.
type hold struct {
	localq.Hold // mu guards it; its Req is the request of the caller
	call        *call
	inner       core.Hold // the lock of lockmw
	old         *oldLock

	ctx       context.Context // ends with the hold
	end       context.CancelFunc
	unlocked  chan struct{} // closed by Release
	renewals  sync.WaitGroup
	begun     atomic.Bool // the caller has the hold
	leftovers bool        // before that: the old keys may have its value
	freeing   atomic.Bool
	freed     chan struct{} // closed when both are released, or cannot be
	waiters   int           // at the release
	freeErr   error         // of the release

	mu      sync.Mutex
	oldEnds clock.Instant // when the old key expires unless it is renewed
	renewAt clock.Instant
	lease   time.Duration

	renewing chan struct{} // holds a value during a renewal of the old key
}

func newHold(c *call) *hold {
	h := &hold{
		call: c, old: newOldLock(&c.locks.lib, c.locks.servers, c.req.Key), lease: c.req.Lease,
		unlocked: make(chan struct{}), freed: make(chan struct{}), renewing: make(chan struct{}, 1),
	}
	h.Req = c.req
	h.ctx, h.end = context.WithCancel(context.Background())
	return h
}

// innerRequest returns the request for the lock of lockmw. A maximum and a minimum hold begin when the old key is taken as well,
// so the bridge applies them.
func (h *hold) innerRequest() *core.Request {
	r := *h.Req
	r.MaxHold, r.MinHold = 0, 0
	r.Events = events{h.Req.Events, h}
	if r.Wait != 0 {
		r.Wait = h.call.remaining()
	}
	return &r
}

// begin gives the hold to the caller. It returns false if the lock was lost.
func (h *hold) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.Over {
		return false
	}
	h.Hold = localq.NewHold(h.Req, h.inner.Token(), clock.Now())
	if h.Req.MinHold > 0 {
		h.inner.KeepTaken(h.Req.MinHold)
	}
	h.renewAt = h.oldEnds.Add(-h.lease * 2 / 3)
	h.begun.Store(true)
	h.renewals.Go(h.keep)
	return true
}

func (h *hold) setOldEnds(at clock.Instant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.oldEnds = at
}

// Deadline implements core.Hold. It is the earliest of the ends of the lock, of the old key, and of a maximum hold.
func (h *hold) Deadline() clock.Instant {
	deadline := h.ownDeadline()
	if inner := h.inner.Deadline(); !inner.IsZero() && inner.Before(deadline) {
		return inner
	}
	return deadline
}

// ownDeadline is Deadline without the lock of lockmw.
func (h *hold) ownDeadline() clock.Instant {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.EndsBy(h.oldEnds)
}

// Expired implements core.Hold.
func (h *hold) Expired() bool {
	h.expireOwn()
	return h.gone() != nil || h.inner.Expired()
}

// expireOwn ends the hold if the old key or the maximum hold has expired. The cause says which.
func (h *hold) expireOwn() {
	now := clock.Now()
	h.mu.Lock()
	most := h.MaxEnd()
	limited, expired := !most.IsZero() && !now.Before(most), !now.Before(h.oldEnds)
	h.mu.Unlock()
	switch {
	case limited:
		h.lose(h.ExpiryLoss(now, ""), 0)
	case expired:
		h.lose(h.old.err().lost("was not renewed before its lease expired"), 0)
	}
}

// gone returns why the hold has ended, or nil if it has not.
func (h *hold) gone() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.Ended()
}

// State implements core.BlockingHold.
func (h *hold) State() core.HoldState {
	blocking, ok := h.inner.(core.BlockingHold)
	if !ok {
		return core.HoldState{Over: true}
	}
	return blocking.State()
}

// Extend implements core.Hold.
func (h *hold) Extend(ctx context.Context, lease time.Duration) error {
	if err := h.inner.Extend(ctx, lease); err != nil {
		return err
	}
	h.mu.Lock()
	h.lease = lease
	h.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()
	for {
		err := h.renewOld(ctx)
		switch {
		case err == nil:
			return nil
		case h.gone() != nil:
			return h.gone()
		case !transport.IsTemporary(err) || !pause.For(ctx, maxPollPause):
			return h.old.err().failed(err)
		}
	}
}

// KeepTaken implements core.Hold.
func (h *hold) KeepTaken(d time.Duration) {
	h.inner.KeepTaken(d)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Keep(d)
}

// Downgrade implements core.Hold: there are no readers.
func (h *hold) Downgrade(context.Context) error { return errors.ErrUnsupported }

// BeginTick implements core.TickHold.
func (h *hold) BeginTick(ctx context.Context, t core.Tick) (core.TickAnswer, time.Time, error) {
	ticks, ok := h.inner.(core.TickHold)
	if !ok {
		return 0, time.Time{}, errors.ErrUnsupported
	}
	return ticks.BeginTick(ctx, t)
}

// MarkTick implements core.TickHold.
func (h *hold) MarkTick(ctx context.Context, t core.Tick) (again bool, err error) {
	ticks, ok := h.inner.(core.TickHold)
	if !ok {
		return false, errors.ErrUnsupported
	}
	return ticks.MarkTick(ctx, t)
}

// Release implements core.Hold.
func (h *hold) Release(patience time.Duration) (waiters int, err error) {
	h.expireOwn()
	h.mu.Lock()
	lost := h.Ended()
	if !h.Over {
		h.End(nil)
	}
	h.mu.Unlock()
	h.end()
	close(h.unlocked)
	h.renewals.Wait()
	h.free(patience)
	return h.waiters, cmp.Or(lost, h.freeErr)
}
