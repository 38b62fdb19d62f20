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
	"github.com/lockmw/go/internal/logged"
	"github.com/lockmw/go/internal/loglimit"
)

func (l *kindLocker) lock(ctx context.Context, key string, opts []Option) (context.Context, *Hold, error) {
	policy, err := l.policyFor(opts)
	op := policy.op()
	if err == nil {
		err = keyed.Check(key)
	}
	if ctx == nil {
		err = errNilContext
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
	a := l.newAttempt(&policy, op, key, ownerOf(outer))
	a.begin(ctx)
	return a.end(l.locks.Acquire(a.observed, &a.held.req))
}

// policyFor returns the policy of a call with opts. With an error it has what those after the mistake say, too.
func (l *kindLocker) policyFor(opts []Option) (Policy, error) {
	policy := l.base
	err := policy.apply(opts)
	if err == nil && policy.Place != "" && !l.kind.OwnTicket {
		err = fmt.Errorf("%w: WithPlace needs a fair lock: fairlock.New", ErrInvalidOption)
	}
	if err == nil && policy.needsExclusion() {
		err = checkExclusion(l.kind.Mode, l.kind.Permits)
	}
	if err == nil {
		err = l.checkWeight(&policy)
	}
	if err != nil {
		for i := range opts { // those after the mistake may say that the call only tries
			_ = policy.apply(opts[i : i+1])
		}
	}
	return policy, err
}

// op is what a call with the policy does, as errors and observers have it.
func (p *Policy) op() string {
	switch {
	case p.leads:
		return "lead"
	case p.once():
		return "once"
	case p.Wait == 0:
		return "try_lock"
	}
	return "lock"
}

// An attempt is a call on its way to a lock.
type attempt struct {
	policy   *Policy
	op       string
	held     *heldLock
	hold     *Hold           // the first of held
	ctx      context.Context // the caller's
	observed context.Context // what the observers have made of it
	start    time.Time
}

func (l *kindLocker) newAttempt(p *Policy, op, key, owner string) attempt {
	held := l.newHeldLock(p, key, owner)
	if p.Stacks {
		held.takenAt = callers()
	}
	if len(p.Observers) > 0 {
		held.watch = newWatch(Attempt{
			Key: key, Name: l.nameOf(key, p), Op: op, Mode: held.req.Mode.String(), Policy: *p,
		}, l.Logger())
	}
	return attempt{policy: p, op: op, held: held, hold: held.newHold()}
}

// begin tells the observers of the attempt.
func (a *attempt) begin(ctx context.Context) {
	a.observe(ctx)
	if w := a.held.watch; w != nil {
		a.held.req.Trace, a.held.req.WantsMoves = w.traceParent(), w.wantsMoves()
	}
}

// observe is begin for an attempt whose request is on its way or answered.
func (a *attempt) observe(ctx context.Context) {
	a.start, a.ctx, a.observed = time.Now(), ctx, ctx
	if w := a.held.watch; w != nil {
		w.start(ctx)
		a.observed = w.ctx
	}
}

// end ends the attempt with what the implementation of locks has returned.
func (a *attempt) end(backend core.Hold, err error) (context.Context, *Hold, error) {
	held, p := a.held, a.policy
	var acquired time.Time
	var waited time.Duration
	var contended bool
	if err != nil || held.watch != nil { // else nobody is told
		acquired = time.Now()
		waited, contended = acquired.Sub(a.start), held.isContended()
	}
	if err == nil {
		held.backend = backend
	} else {
		failure := acquireError(a.ctx, p, a.op, held.req.Key, waited, contended, err)
		if !errors.Is(failure.Err, ErrDeadlock) { // which says more
			failure.Err = held.explainStall(failure.Err)
		}
		err = failure
		if !p.FailOpen || !isOutage(err) || a.ctx.Err() != nil {
			if held.watch != nil {
				held.watch.failed(err)
			}
			return a.ctx, nil, err
		}
	}
	observed := a.observed
	if held.watch != nil {
		held.watch.since = acquired
		a.tellAcquired(Acquisition{Hold: a.hold, Waited: waited, Contended: contended, FailedOpen: err})
		observed = held.watch.ctx
	} else if err != nil {
		a.logFailedOpen(err)
	}
	a.hold.attach(observed)
	held.startEvents()
	return &a.hold.ctx, a.hold, nil
}

// tellAcquired tells the observers. A call that failed open is logged, unless one of them does that.
func (a *attempt) tellAcquired(g Acquisition) {
	w := a.held.watch
	if g.FailedOpen == nil {
		w.acquired(g)
		return
	}
	call := logged.NewCall(w.ctx)
	w.ctx = call
	w.acquired(g)
	if !call.Logged() {
		a.logFailedOpen(g.FailedOpen)
	}
}

func (a *attempt) logFailedOpen(err error) {
	l := a.held.locker
	if missed, ok := l.lines.Allow(loglimit.KindOf(err)); ok {
		l.Logger().WarnContext(a.ctx, "lockmw: continuing without a lock", "name", l.nameOf(a.held.req.Key, a.policy), "error", errors.Unwrap(err), "suppressed", missed)
	}
}

// isOutage reports whether the server cannot be used because of itself, or of the way to it.
func isOutage(err error) bool {
	return errors.Is(err, ErrUnavailable) && core.FaultOf(err) == core.Outage
}

// newHeldLock prepares the request for a lock.
func (l *kindLocker) newHeldLock(p *Policy, key, owner string) *heldLock {
	held := &heldLock{
		locker: l,
		req: core.Request{
			Key: key, Mode: l.modeFor(p), Owner: owner,
			Wait: p.Wait, FailOpen: p.FailOpen, Lease: p.Lease, Fixed: p.Fixed,
			MaxHold: p.MaxHold, MinHold: p.MinHold, MaxWaiters: p.MaxWaiters,
			Place: p.Place, KeepPlace: p.KeepPlace, Label: p.Label, Detect: p.DeadlockDetection, Leads: p.leads, Once: p.once(), Within: p.within,
		},
	}
	if l.kind.Permits > 0 {
		held.req.Permits, held.req.Weight = l.kind.Permits, p.weight()
	}
	held.req.Events = held
	return held
}

// modeFor returns the mode of a call. A job's hold is not passed on within the process: its id is used for one hold, so
// that a late copy of a command is known for one (rule 20 of docs/protocol.md).
func (l *kindLocker) modeFor(p *Policy) core.Mode {
	if p.once() && l.kind.Mode == core.Exclusive {
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
