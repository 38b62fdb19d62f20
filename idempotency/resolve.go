package idempotency

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lockmw/go/lockmw"
)

// Resolve decides about a run that left no outcome, after a person has found out what it did. run is Unfinished.Run. With an
// answer, the work counts as done, and repetitions get that answer. With nil, the run counts as not done, and a repetition
// runs the work.
//
// Resolve takes the lock of the key, so that it does not decide about a run that still works: that is ErrInFlight. It returns
// ErrUnknownOutcome if run is not the last run of the key without an outcome.
func (r *Runner) Resolve(ctx context.Context, key Key, run string, answer *Answer) error {
	if err := r.resolve(ctx, key, run, answer); err != nil {
		return &Error{Op: "resolve", Err: err}
	}
	return nil
}

func (r *Runner) resolve(ctx context.Context, key Key, run string, answer *Answer) error {
	if err := r.checkCall(ctx, key, Refuse); err != nil && !errors.Is(err, ErrKeyExpired) {
		return err
	}
	end, err := End{Key: key.LockKey(), Run: run, Outcome: Forget}, error(nil)
	if answer != nil {
		if end, err = r.keeping(key.LockKey(), run, answer); err != nil {
			return err
		}
	}
	_, hold, err := r.locker.Lock(ctx, end.Key, append(slices.Clip(r.lock), lockmw.WithWait(0))...)
	if err != nil {
		return lockError(err)
	}
	defer func() { _ = hold.Unlock() }() // the outcome is recorded
	ok, err := r.records.End(ctx, end)
	switch {
	case err != nil:
		return unavailable(err)
	case !ok:
		return fmt.Errorf("%w: it was not the run %s, or it is settled by now", ErrUnknownOutcome, run)
	}
	return nil
}
