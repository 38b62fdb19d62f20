package localq

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
)

// A Hold is one caller's turn, with the state that all implementations have in common. They embed it.
type Hold struct {
	Req   *core.Request
	Since clock.Instant

	Lost      error // why it was lost; nil: it was not
	Over      bool  // released or lost
	Forgotten bool  // it can no longer be released
	Abandoned bool  // its caller gave up before it received the hold

	token int64
	kept  *time.Time // the key stays taken until then, by the monotonic clock, because that time must not end early; nil: only as long as the hold lasts
}

// NewHold returns the hold of a call, with its token.
func NewHold(r *core.Request, token int64, since clock.Instant) Hold {
	h := Hold{Req: r, token: token, Since: since}
	if r.MinHold > 0 && r.Vote == nil { // whose lock keeps the nodes taken that it is released at
		h.Keep(r.MinHold)
	}
	return h
}

// Token implements core.Hold.
func (h *Hold) Token() int64 { return h.token }

// Ended returns why the hold has ended, or nil while it lasts.
func (h *Hold) Ended() error {
	if !h.Over {
		return nil
	}
	return cmp.Or(h.Lost, core.ErrNotHeld)
}

// End records that the hold has ended. lost is nil if it was released.
func (h *Hold) End(lost error) { h.Over, h.Lost = true, lost }

// Keep keeps the key taken for at least d from now.
func (h *Hold) Keep(d time.Duration) {
	if until := time.Now().Add(d); h.kept == nil || until.After(*h.kept) {
		h.kept = &until
	}
}

// Linger returns how long the key stays taken if the hold is released now.
func (h *Hold) Linger() time.Duration {
	if h.Abandoned || h.kept == nil {
		return 0
	}
	return max(time.Until(*h.kept), 0)
}

// KeptUntil returns when that time ends, or zero if the key stays taken only as long as the hold lasts.
func (h *Hold) KeptUntil() time.Time {
	if h.Linger() == 0 {
		return time.Time{}
	}
	return *h.kept
}

// Local describes the hold to other callers of this process.
func (h *Hold) Local() core.LocalHold {
	return core.LocalHold{Request: h.Req, Token: h.token, Since: h.Since.Time()}
}

// Describe describes the holder at one moment, which is now and at on the two clocks. ttl is the time until the hold expires if
// it is not renewed.
func (h *Hold) Describe(process string, ttl time.Duration, now time.Time, at clock.Instant) core.Holder {
	held := at.Sub(h.Since)
	return core.Holder{
		Owner: h.Req.Owner, Process: process, TraceParent: h.Req.Trace, Token: h.token, Since: now.Add(-held), TTL: max(0, ttl),
		Label: h.Req.Label, Fixed: h.Req.Fixed, MinRest: max(0, h.Req.MinHold-held),
	}
}

// BecomesForgotten records that the hold can no longer be released, if that is so, and reports whether that is new. It waits for
// the end of a minimum hold.
func (h *Hold) BecomesForgotten() bool {
	if h.Over || h.Forgotten || h.Linger() > 0 || !h.Req.Events.IsForgotten() {
		return false
	}
	h.Forgotten = true
	return true
}

// MaxEnd returns the end of the maximum hold, or zero if there is none.
func (h *Hold) MaxEnd() clock.Instant {
	if h.Req.MaxHold == 0 {
		return 0
	}
	return h.Since.Add(h.Req.MaxHold)
}

// EndsBy returns when the hold ends if its lease ends at that time, which is zero for never: the maximum hold may end before.
func (h *Hold) EndsBy(leaseEnd clock.Instant) clock.Instant {
	if most := h.MaxEnd(); !most.IsZero() && (leaseEnd.IsZero() || most.Before(leaseEnd)) {
		return most
	}
	return leaseEnd
}

// ExpiryLoss returns the loss of a hold that has expired by now. ranOut is the reason if its lease was not renewed.
func (h *Hold) ExpiryLoss(now clock.Instant, ranOut string) error {
	why := ranOut
	switch end := h.MaxEnd(); {
	case end != 0 && !now.Before(end):
		why = "its maximum hold has ended"
	case h.Req.Fixed:
		why = "its fixed lease has expired"
	case h.Forgotten:
		why = "it was forgotten: no caller could unlock it any more"
	}
	return fmt.Errorf("%w: %s", core.ErrLost, why)
}

// Holds counts the holds of an implementation that have not ended, for its Shutdown.
type Holds struct {
	n        atomic.Int64
	draining atomic.Bool // n only falls
	once     sync.Once
	ended    chan struct{}
}

// NewHolds returns an empty count.
func NewHolds() *Holds { return &Holds{ended: make(chan struct{})} }

// Len returns the count.
func (a *Holds) Len() int { return int(a.n.Load()) }

// Begin counts a new hold.
func (a *Holds) Begin() { a.n.Add(1) }

// End counts a hold that has ended.
func (a *Holds) End() {
	if a.n.Add(-1) == 0 {
		a.drain()
	}
}

func (a *Holds) drain() {
	if a.draining.Load() && a.n.Load() == 0 {
		a.once.Do(func() { close(a.ended) })
	}
}

// AwaitEnd returns when the count is zero or ctx ends. No hold may begin after this call.
func (a *Holds) AwaitEnd(ctx context.Context) error {
	a.draining.Store(true)
	a.drain()
	select {
	case <-a.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("holds not ended: %d: %w", a.Len(), ctx.Err())
	}
}
