package lockmw

import (
	"cmp"
	"context"
	"fmt"
	"time"
	"weak"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
)

// The options of nested calls (rule 15 of docs/protocol.md): A maximum and a minimum hold are honoured. The lease is shared with
// the outer hold, and a call with another lease is refused. Options for acquiring a lock (WithWait, WithMaxWaiters, WithPlace,
// WithFailOpen, WithName, WithObserver, WithStacks) have no effect, because a nested call gets the lock immediately and is not
// observed.

// A holdLimit is the maximum hold of a nested call. It ends the nested hold, but not the lock.
type holdLimit struct {
	at    clock.Instant
	timer *clock.Timer // ends the context
}

var errNestedLimit = fmt.Errorf("%w: the maximum hold of the nested call was reached", ErrLost)

// limitTo gives a new nested hold a maximum of its own, unless the lock has a shorter one.
func (h *Hold) limitTo(most time.Duration) {
	if lock := h.lock.req.MaxHold; most == 0 || lock > 0 && lock <= most {
		return
	}
	limited := weak.Make(h) // the timer must not keep a forgotten hold alive
	h.limit = &holdLimit{
		at: clock.Now().Add(most),
		timer: clock.AfterFunc(most, func() {
			if h := limited.Value(); h != nil {
				h.ctx.end(errNestedLimit)
			}
		}),
	}
}

// check returns why h is lost, or nil if it is not.
func (h *Hold) check() error {
	if err := h.lock.check(); err != nil {
		return err
	}
	return h.checkLimit()
}

// checkLimit compares the clock with the nested hold's own maximum.
func (h *Hold) checkLimit() error {
	if h.limit == nil || clock.Until(h.limit.at) > 0 {
		return nil
	}
	h.ctx.end(errNestedLimit)
	return errNestedLimit
}

// reenter takes a nested hold if ctx carries a hold of key, and returns nil if it does not. h is the innermost hold of ctx. p is
// the sum of opts; the nested hold gets those that apply to it.
func (l *kindLocker) reenter(ctx context.Context, h *Hold, key string, p *Policy, opts []Option) (*Hold, error) {
	for ; h != nil; h = h.outerIn(ctx) {
		if !h.lock.isOf(l.locks) || h.lock.req.Key != key {
			continue
		}
		if err := h.checkLimit(); err != nil && !h.unlocked.Load() {
			return nil, err
		}
		given := decidedBy(opts)
		again, err := h.lock.reenter(ctx, l.kind.Mode, func(lock *heldLock) error {
			return cmp.Or(lock.otherKind(l.kind, p), lock.contradiction(p, given))
		})
		if again == nil && err == nil {
			continue
		}
		if again != nil {
			again.limitTo(p.MaxHold)
			if given&(1<<optMinHold) != 0 && p.MinHold > 0 && again.lock.backend != nil {
				again.lock.backend.KeepTaken(p.MinHold)
			}
		}
		return again, err
	}
	return nil, nil
}

// contradiction returns an error if an option of a nested call cannot be honoured.
func (l *heldLock) contradiction(p *Policy, given uint32) error {
	switch {
	case p.once():
		return fmt.Errorf("%w: Once with a context that already holds the job's lock: ticks of a job do not overlap", ErrInvalidOption)
	case p.leads:
		return errNestedLead
	case given&(1<<optLease) != 0 && (p.Lease != l.req.Lease || p.Fixed != l.req.Fixed):
		return fmt.Errorf("%w: this call is nested in a hold with %s, and shares its lease", ErrInvalidOption, leaseOption(l.req.Lease, l.req.Fixed))
	case given&(1<<optMinHold) != 0 && p.MinHold > 0 && l.req.Mode == core.Read && l.req.MinHold == 0:
		return fmt.Errorf("%w: WithMinHold: this call is nested in a read hold without it", ErrInvalidOption)
	case given&(1<<optMinHold) != 0:
		return l.locker.checkTimes(0, p.MinHold)
	}
	return nil
}

// leaseOption returns the option for a lease, as error texts show it.
func leaseOption(lease time.Duration, fixed bool) string {
	if fixed {
		return fmt.Sprintf("WithFixedLease(%v)", lease)
	}
	return fmt.Sprintf("WithLease(%v)", lease)
}

// decidedBy returns the bits of the options that a call sets itself, without those of WithDefaults.
func decidedBy(opts []Option) (given uint32) {
	for i := range opts {
		switch o := &opts[i]; o.kind {
		case optJoined:
			given |= decidedBy(o.options)
		case optDefaults:
		default:
			given |= o.bit()
		}
	}
	return given
}
