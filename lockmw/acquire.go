package lockmw

import (
	"context"
	"encoding/binary"
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

// Lock implements Locker.
func (l *kindLocker) Lock(ctx context.Context, key string, opts ...Option) (context.Context, *Hold, error) {
	policy, err := l.Policy(opts...)
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

// Policy implements kinds.Locker: it returns the policy of a call with opts. With an error it still applies the options after the
// invalid one.
func (l *kindLocker) Policy(opts ...Option) (Policy, error) {
	policy := l.base
	err := policy.apply(opts)
	if err == nil && policy.Place != "" && !l.kind.OwnTicket {
		err = fmt.Errorf("%w: WithPlace needs a fair lock, a semaphore or a Local", ErrInvalidOption)
	}
	if err == nil && (policy.leads || policy.once()) {
		err = checkExclusion(l.kind.Mode, l.kind.Permits)
	}
	if err == nil {
		err = l.checkWeight(&policy)
	}
	if err != nil {
		for i := range opts { // a WithWait after the invalid option decides whether the error's Op is "try_lock"
			_ = policy.apply(opts[i : i+1])
		}
	}
	return policy, err
}

// op returns the operation of a call with the policy, as in errors and for observers.
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

// An attempt is a call that requests a lock.
type attempt struct {
	policy   *Policy
	op       string
	held     *heldLock
	hold     *Hold           // the first hold of held
	ctx      context.Context // the caller's
	observed context.Context // ctx after the observers' Start
	start    time.Time
}

func (l *kindLocker) newAttempt(p *Policy, op, key, owner string) attempt {
	held := l.newHeldLock(p, key, owner)
	if p.Stacks {
		held.takenAt = callers()
	}
	if len(p.Observers) > 0 {
		held.observed = l.newObservation(p, op, key, held.req.Mode)
	}
	return attempt{policy: p, op: op, held: held, hold: held.newHold()}
}

// begin notifies the observers before the request is sent, and adds to the request what they need.
func (a *attempt) begin(ctx context.Context) {
	a.observe(ctx)
	if o := a.held.observed; o != nil {
		a.held.req.Trace, a.held.req.WantsMoves = o.traceParent(), o.wantsMoves()
	}
}

// observe notifies the observers. Alone it is for an attempt whose request was sent before.
func (a *attempt) observe(ctx context.Context) {
	a.start, a.ctx, a.observed = time.Now(), ctx, ctx
	if o := a.held.observed; o != nil {
		o.start(ctx)
		a.observed = o.ctx
	}
}

// end completes the attempt with the result of Acquire.
func (a *attempt) end(backend core.Hold, err error) (context.Context, *Hold, error) {
	held := a.held
	var acquired time.Time
	var waited time.Duration
	var contended bool
	if err != nil || held.observed != nil {
		acquired = time.Now()
		waited, contended = acquired.Sub(a.start), held.isContended()
	}
	if err == nil {
		held.backend = backend
	} else {
		err = a.failure(waited, contended, err)
		if !a.policy.FailOpen || !isOutage(err) || a.ctx.Err() != nil {
			if held.observed != nil {
				held.observed.failed(err)
			}
			return a.ctx, nil, err
		}
	}
	observed := a.observed
	if held.observed != nil {
		held.observed.since = acquired
		a.notifyAcquired(Acquisition{Hold: a.hold, Waited: waited, Contended: contended, FailedOpen: err})
		observed = held.observed.ctx
	} else if err != nil {
		a.logFailedOpen(err)
	}
	a.hold.attach(observed)
	held.startEvents()
	return &a.hold.ctx, a.hold, nil
}

// notifyAcquired notifies the observers. A call that failed open is logged here unless an observer logs it.
func (a *attempt) notifyAcquired(g Acquisition) {
	o := a.held.observed
	if g.FailedOpen == nil {
		o.acquired(g)
		return
	}
	call := logged.NewCall(o.ctx)
	o.ctx = call
	o.acquired(g)
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

// isOutage reports whether err is an outage of the server or of the network. Only then does a call fail open.
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
			Place: p.Place, KeepPlace: p.KeepPlace, Label: p.Label, Detect: p.DeadlockDetection, Leads: p.leads, Once: p.once(), Within: p.within, Record: p.record,
		},
	}
	if l.kind.Permits > 0 {
		held.req.Permits, held.req.Weight = l.kind.Permits, p.weight()
	}
	held.req.Events = held
	return held
}

// modeFor returns the mode of a call. Once, and a call with a record, take a plain lock as a fair one, which is not passed on
// within the process: each hold then has an id of its own, by which a late copy of a command is recognized (rules 20 and 28 of
// docs/protocol.md).
func (l *kindLocker) modeFor(p *Policy) core.Mode {
	if (p.once() || p.record != nil) && l.kind.Mode == core.Exclusive {
		return core.Fair
	}
	return l.kind.Mode
}

// failure makes an *Error of the error of Acquire.
func (a *attempt) failure(waited time.Duration, contended bool, err error) *Error {
	e := &Error{Op: a.op, Key: a.held.req.Key, Label: a.policy.Label, Err: err}
	if contended || a.policy.Wait > 0 && errors.Is(err, ErrBusy) {
		e.Waited = waited
	}
	if seen, ok := errors.AsType[*core.AcquireError](err); ok {
		e.Err, e.RetryAfter, e.Holders = seen.Err, seen.RetryAfter, holdersOf(seen.Holders)
	}
	e.Err = withLoss(a.ctx, e.Err)
	if !errors.Is(e.Err, ErrDeadlock) { // it already names the holder
		e.Err = a.held.explainSelfWait(e.Err)
	}
	return e
}

// contextError returns why ctx ended: its error, and its cause if that differs.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	switch {
	case cause == nil || errors.Is(cause, err):
		return err
	case core.IsLoss(cause): // of an outer hold
		return fmt.Errorf("%w (%w)", err, cause)
	}
	return fmt.Errorf("%w (%v)", err, cause) //nolint:errorlint // errors.Is must not match a foreign cause as an outcome of this call
}

// withLoss adds the loss that ended ctx to the error of a wait that ended with ctx.
func withLoss(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); core.IsLoss(cause) && errors.Is(err, ctx.Err()) {
		return fmt.Errorf("%w (%w)", err, cause)
	}
	return err
}

// ownerOf returns the owner id of an outer hold, or a new random one.
func ownerOf(outer *Hold) string {
	if outer != nil && outer.lock.req.Owner != "" {
		return outer.lock.req.Owner
	}
	raw := binary.LittleEndian.AppendUint64(make([]byte, 0, 16), rand.Uint64()) // seeded by the system's randomness
	return hex.EncodeToString(binary.LittleEndian.AppendUint64(raw, rand.Uint64()))
}
