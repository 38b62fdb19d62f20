package idempotency

import (
	"context"
	"errors"
	"slices"

	"github.com/lockmw/go/internal/kinds"
	"github.com/lockmw/go/internal/observe"
	"github.com/lockmw/go/lockmw"
)

// A reporter tells the observers of a Runner's locks how its calls end. The zero reporter does nothing.
type reporter struct {
	locks  kinds.Locker // calls the observers; nil if none has the callback
	policy lockmw.Policy
}

// newReporter returns the reporter for locks of l with the given options. A Locker from outside this module has only observers
// among the options.
func newReporter(l lockmw.Locker, opts []lockmw.Option) (reporter, error) {
	k, known := kinds.Of(l)
	if !known {
		k, _ = kinds.Of(lockmw.NewLocal())
	}
	p, err := k.Policy(opts...)
	if err != nil || !slices.ContainsFunc(p.Observers, func(o *lockmw.Observer) bool { return o.Idempotent != nil }) {
		return reporter{}, err
	}
	return reporter{k, p}, nil
}

// report tells the observers that a call has ended. more are the lock options of the call, after those of the Runner.
func (r *Runner) report(ctx context.Context, key Key, more []lockmw.Option, o observe.CallOutcome) {
	if r.reporter.locks == nil {
		return
	}
	p := r.reporter.policy
	if len(more) > 0 {
		p, _ = r.reporter.locks.Policy(slices.Concat(r.lock, more)...) // Begin has used the same options
	}
	r.reporter.locks.ReportIdempotent(ctx, key.LockKey(), p, lockmw.IdempotentCall{Outcome: string(o)})
}

// reportReplay tells the observers that a call has ended if run is a replay.
func (r *Runner) reportReplay(ctx context.Context, key Key, more []lockmw.Option, run *Run) {
	switch {
	case run.replay == nil:
	case run.replay.NoBody:
		r.report(ctx, key, more, observe.CallDone)
	default:
		r.report(ctx, key, more, observe.CallReplayed)
	}
}

// reportRefused tells the observers that a call has ended with err, which is not nil, and ran nothing.
func (r *Runner) reportRefused(ctx context.Context, key Key, more []lockmw.Option, err error) {
	if r == nil || r.reporter.locks == nil {
		return
	}
	if o, observed := refusalOf(err); observed {
		r.report(ctx, key, more, o)
	}
}

// refusalOf returns the outcome of a call that ended with err and ran nothing. Nested and invalid calls are not observed, as for
// locks.
func refusalOf(err error) (o observe.CallOutcome, observed bool) {
	switch {
	case errors.Is(err, ErrUnknownOutcome): // it may wrap the others
		return observe.CallUnknown, true
	case errors.Is(err, ErrNested), errors.Is(err, lockmw.ErrInvalidKey), errors.Is(err, lockmw.ErrInvalidOption):
		return "", false
	case observe.OutcomeOf(err) == observe.Canceled, errors.Is(err, lockmw.ErrNotRequested): // also while a run is in flight
		return observe.CallCanceled, true
	case errors.Is(err, ErrInFlight):
		return observe.CallInFlight, true
	case errors.Is(err, ErrReused):
		return observe.CallReused, true
	case errors.Is(err, ErrDone):
		return observe.CallDone, true
	case errors.Is(err, ErrKeyExpired):
		return observe.CallExpired, true
	}
	return observe.CallFailed, true
}

// outcomeOf returns the outcome of a call whose run the store was asked to end with o.
func outcomeOf(o Outcome, ended bool, err error) observe.CallOutcome {
	switch {
	case err != nil, o == Leave, o == Keep && !ended:
		return observe.CallUnfinished
	case o == Forget:
		return observe.CallForgotten
	}
	return observe.CallKept
}
