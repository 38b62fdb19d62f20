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
	"github.com/lockmw/go/internal/loglimit"
)

func (l *KindLocker) lock(ctx context.Context, key string, opts []Option) (context.Context, *Hold, error) {
	policy := l.base
	err := policy.apply(opts)
	if err == nil && policy.Place != "" && !l.kind.OwnTicket {
		err = fmt.Errorf("%w: WithPlace needs a fair lock: fairlock.New", ErrInvalidOption)
	}
	if err == nil && policy.once && l.kind.Mode == core.Read {
		err = fmt.Errorf("%w: a lock for reading: replicas that run a job exclude one another", ErrInvalidOption)
	}
	if err != nil {
		for i := range opts { // those after the mistake may say that the call only tries
			_ = policy.apply(opts[i : i+1])
		}
	}
	op := "lock"
	switch {
	case policy.leads:
		op = "lead"
	case policy.once:
		op = "once"
	case policy.Wait == 0:
		op = "try_lock"
	}
	if err == nil {
		err = keyed.Check(key)
	}
	if err != nil {
		return ctx, nil, &Error{Op: op, Key: key, Label: policy.Label, Err: err}
	}
	outer, _ := FromContext(ctx)
	h, err := l.reenter(ctx, outer, key, &policy, opts)
	if err == nil && h == nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", ErrNotRequested, contextError(ctx))
	}
	if err != nil {
		return ctx, nil, &Error{Op: op, Key: key, Label: policy.Label, Err: err}
	}
	if h != nil {
		return &h.ctx, h, nil
	}
	return l.acquire(ctx, &policy, op, key, outer)
}

func (l *KindLocker) acquire(ctx context.Context, p *Policy, op, key string, outer *Hold) (context.Context, *Hold, error) {
	held := l.newHeldLock(p, key, outer)
	if p.Stacks {
		held.takenAt = callers()
	}
	start, observed := time.Now(), ctx
	if len(p.Observers) > 0 {
		held.watch = newWatch(ctx, Attempt{
			Key: key, Name: p.nameFor(key), Op: op, Mode: held.req.Mode.String(), Policy: *p,
		}, l.Logger())
		held.req.Trace, held.req.WantsMoves = held.watch.traceParent(), held.watch.wantsMoves()
		observed = held.watch.ctx
	}
	h := held.newHold()
	backend, err := l.locks.Acquire(observed, &held.req)
	acquired := time.Now()
	waited, contended := acquired.Sub(start), held.isContended()
	if err == nil {
		held.backend = backend
	} else {
		failure := acquireError(ctx, p, op, key, waited, contended, err)
		failure.Err = held.explainStall(failure.Err)
		err = failure
		if !p.FailOpen || !errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
			if held.watch != nil {
				held.watch.failed(err)
			}
			return ctx, nil, err
		}
		if missed, ok := l.failedOpen.Allow(loglimit.KindOf(err)); ok {
			l.Logger().WarnContext(ctx, "lockmw: going on without a lock", "name", p.nameFor(key), "error", errors.Unwrap(err), "suppressed", missed)
		}
	}
	if held.watch != nil {
		held.watch.since = acquired
		held.watch.acquired(Acquisition{Hold: h, Waited: waited, Contended: contended, FailedOpen: err})
		observed = held.watch.ctx
	}
	h.attach(observed)
	held.startEvents()
	return &h.ctx, h, nil
}

// newHeldLock prepares the request for a lock.
func (l *KindLocker) newHeldLock(p *Policy, key string, outer *Hold) *heldLock {
	held := &heldLock{
		locker: l,
		req: core.Request{
			Key: key, Mode: l.modeFor(p), Owner: ownerOf(outer),
			Wait: p.Wait, FailOpen: p.FailOpen, Lease: p.Lease, Fixed: p.Fixed,
			MaxHold: p.MaxHold, MinHold: p.MinHold, MaxWaiters: p.MaxWaiters,
			Place: p.Place, KeepPlace: p.KeepPlace, Label: p.Label, Leads: p.leads, Once: p.once,
		},
	}
	held.req.Events = held
	return held
}

// modeFor returns the mode of a call. A job's hold is not passed on within the process: its id is used for one hold, so
// that a late copy of a command is known for one (rule 20 of docs/protocol.md).
func (l *KindLocker) modeFor(p *Policy) core.Mode {
	if p.once && l.kind.Mode == core.Exclusive {
		return core.Fair
	}
	return l.kind.Mode
}

// acquireError makes a failure of a call with ctx an *Error.
func acquireError(ctx context.Context, p *Policy, op, key string, waited time.Duration, contended bool, err error) *Error {
	e := &Error{Op: op, Key: key, Label: p.Label, Err: err}
	if contended || p.Wait > 0 && errors.Is(err, ErrBusy) {
		e.Waited = waited
	}
	if seen, ok := errors.AsType[*core.AcquireError](err); ok {
		e.Err, e.RetryAfter, e.Holders = seen.Err, seen.RetryAfter, holdersOf(seen.Holders)
	}
	e.Err = withLoss(ctx, e.Err)
	return e
}

// contextError returns why ctx ended: its error, and its cause if that says more.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	switch {
	case cause == nil || errors.Is(cause, err):
		return err
	case core.IsLoss(cause): // of an outer hold
		return fmt.Errorf("%w (%w)", err, cause)
	}
	return fmt.Errorf("%w (%v)", err, cause) //nolint:errorlint // errors.Is must not take a stranger's error for an outcome of this call
}

// withLoss adds to the error of a wait that ended with ctx the loss that ended ctx.
func withLoss(ctx context.Context, err error) error {
	ended := ctx.Err()
	if ended == nil || !errors.Is(err, ended) {
		return err
	}
	if cause := context.Cause(ctx); core.IsLoss(cause) {
		return fmt.Errorf("%w (%w)", err, cause)
	}
	return err
}

// ownerOf returns the owner of an outer hold, or a new one.
func ownerOf(outer *Hold) string {
	if outer != nil && outer.lock.req.Owner != "" {
		return outer.lock.req.Owner
	}
	var raw [16]byte
	a, b := rand.Uint64(), rand.Uint64() // seeded by the system's randomness
	for i := range 8 {
		raw[i], raw[8+i] = byte(a>>(8*i)), byte(b>>(8*i))
	}
	return hex.EncodeToString(raw[:])
}
