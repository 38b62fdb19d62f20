package lockmw

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/keyed"
)

func (l *KindLocker) lock(ctx context.Context, key string, opts []Option) (context.Context, *Hold, error) {
	policy := l.base
	err := policy.apply(opts)
	if err == nil && policy.Ticket != "" && !l.kind.OwnTicket {
		err = fmt.Errorf("%w: WithTicket needs a lock that is first come, first served: fairlock.New", ErrInvalidOption)
	}
	op := "lock"
	if policy.Wait == 0 {
		op = "try_lock"
	}
	if err == nil {
		err = keyed.Check(key)
	}
	if err != nil {
		return ctx, nil, &Error{Op: op, Key: key, Err: err}
	}
	outer, _ := FromContext(ctx)
	h, err := l.reenter(ctx, outer, key)
	if err == nil && h == nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: not asked for: %w", ErrBusy, contextError(ctx))
	}
	if err != nil {
		return ctx, nil, &Error{Op: op, Key: key, Err: err}
	}
	if h != nil {
		return &h.ctx, h, nil
	}
	return l.acquire(ctx, &policy, op, key, outer)
}

// reenter looks for a hold of key in ctx and shares its lock; nil if there is none.
func (l *KindLocker) reenter(ctx context.Context, h *Hold, key string) (*Hold, error) {
	for ; h != nil; h = h.outer {
		if h.s.locks != l.locks || h.s.req.Key != key {
			continue
		}
		again, err := h.s.reenter(ctx, l.kind.Mode)
		if again != nil || err != nil {
			return again, err
		}
	}
	return nil, nil
}

func (l *KindLocker) acquire(ctx context.Context, p *Policy, op, key string, outer *Hold) (context.Context, *Hold, error) {
	s := &holding{
		locks:         l.locks,
		unlockTimeout: l.unlockTimeout,
		req: core.Request{
			Key: key, Mode: l.kind.Mode, Owner: ownerOf(outer),
			Wait: p.Wait, Lease: p.Lease, Fixed: p.Fixed,
			MaxHold: p.MaxHold, MinHold: p.MinHold, MaxWaiters: p.MaxWaiters,
			Ticket: p.Ticket, Keep: p.KeepTicket,
		},
	}
	s.req.Events = s
	start, observed := time.Now(), ctx
	if len(p.Observers) > 0 {
		s.watch = newWatch(ctx, Attempt{
			Key: key, Name: p.nameFor(key), Op: op, Mode: l.kind.Mode.String(), Policy: *p,
		}, l.logger)
		s.req.Trace, s.req.Moves = s.watch.traceParent(), s.watch.wantsMoves()
		observed = s.watch.ctx
	}
	h := s.newHold()
	grant, err := l.locks.Acquire(observed, &s.req)
	acquired := time.Now()
	waited, contended := acquired.Sub(start), s.isContended()
	if err == nil {
		s.grant, s.token = grant, grant.Token()
	} else {
		err = acquireError(op, key, waited, contended, p.Wait, err)
		if !p.FailOpen || !errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
			if s.watch != nil {
				s.watch.failed(err)
			}
			return ctx, nil, err
		}
		l.logger.WarnContext(ctx, "lockmw: going on without a lock", "name", p.nameFor(key), "error", errors.Unwrap(err))
	}
	if s.watch != nil {
		s.watch.since = acquired
		s.watch.acquired(Grant{Hold: h, Waited: waited, Contended: contended, FailedOpen: err})
		observed = s.watch.ctx
	}
	h.carry(observed)
	s.take()
	return &h.ctx, h, nil
}

// acquireError adds to a failure what the caller knows of the call.
func acquireError(op, key string, waited time.Duration, contended bool, wait time.Duration, err error) error {
	e := &Error{Op: op, Key: key, Err: err}
	if contended || wait > 0 && errors.Is(err, ErrBusy) {
		e.Waited = waited
	}
	if seen, ok := errors.AsType[*core.AcquireError](err); ok {
		e.Err, e.RetryAfter, e.Holders = seen.Err, seen.RetryAfter, holdersOf(seen.Holders)
	}
	return e
}

// contextError is why ctx ended: its error, and its cause if that says more.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(cause, err) {
		return err
	}
	return fmt.Errorf("%w (%v)", err, cause) //nolint:errorlint // another lock's loss is told, not matched
}

// ownerOf continues the owner of an outer hold, else makes a new one.
func ownerOf(outer *Hold) string {
	if outer != nil && outer.s.req.Owner != "" {
		return outer.s.req.Owner
	}
	var raw [16]byte
	a, b := rand.Uint64(), rand.Uint64() // seeded by the system's randomness
	for i := range 8 {
		raw[i], raw[8+i] = byte(a>>(8*i)), byte(b>>(8*i))
	}
	return hex.EncodeToString(raw[:])
}
