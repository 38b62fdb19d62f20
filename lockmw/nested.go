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

// Nested calls (rule 15 of docs/protocol.md): what becomes of their options. A maximum and a minimum hold are
// honoured. The lease is that of the outer hold, and a call that wants another one is refused. Options for the
// way to a lock (WithWait, WithMaxWaiters, WithPlace, WithFailOpen, WithName, WithObserver, WithStacks) have no effect,
// because a nested call has the lock at once and is not observed.

// A holdLimit is the maximum hold of a nested call. It ends the nested hold, and not the lock.
type holdLimit struct {
	at    clock.Instant
	timer *clock.Timer // ends the context
}

var errNestedLimit = fmt.Errorf("%w: the maximum hold of the nested call is over", ErrLost)

// limitTo gives a new nested hold a maximum of its own, unless the lock ends sooner by its own.
func (h *Hold) limitTo(most time.Duration) {
	if lock := h.lock.req.MaxHold; most == 0 || lock > 0 && lock <= most {
		return
	}
	limited := weak.Make(h) // a timer must not keep a hold that is forgotten
	h.limit = &holdLimit{
		at: clock.Now().Add(most),
		timer: clock.AfterFunc(most, func() {
			if h := limited.Value(); h != nil {
				h.ctx.end(errNestedLimit)
			}
		}),
	}
}

// check returns why h is lost, nil if it is not.
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

// reenter takes one more hold of a lock that the context of outer holds h carries; nil if it carries none for
// key. Of the options p, which opts have added up to, the call gets what a nested hold can have.
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

// contradiction returns an error if a nested call cannot have what its own options demand.
func (l *heldLock) contradiction(p *Policy, given uint32) error {
	switch {
	case p.once():
		return fmt.Errorf("%w: Once with a context that holds the lock of the job: its ticks do not overlap", ErrInvalidOption)
	case p.leads:
		return errNestedLead
	case given&(1<<optLease) != 0 && (p.Lease != l.req.Lease || p.Fixed != l.req.Fixed):
		return fmt.Errorf("%w: this call is nested in a hold with %s, and shares its lease", ErrInvalidOption, leaseOption(l.req.Lease, l.req.Fixed))
	case given&(1<<optMinHold) != 0 && p.MinHold > 0 && l.req.Mode == core.Read && l.req.MinHold == 0:
		return fmt.Errorf("%w: WithMinHold of a call that is nested in a read hold without it", ErrInvalidOption)
	case given&(1<<optMinHold) != 0:
		return l.locker.checkTimes(0, p.MinHold)
	}
	return nil
}

// leaseOption is the option that makes a lease.
func leaseOption(lease time.Duration, fixed bool) string {
	if fixed {
		return fmt.Sprintf("WithFixedLease(%v)", lease)
	}
	return fmt.Sprintf("WithLease(%v)", lease)
}

// decidedBy returns the bits of what a call's options decide, without defaults.
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
