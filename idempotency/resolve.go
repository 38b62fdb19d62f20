package idempotency

import (
	"context"
	"errors"
	"fmt"

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
	_, hold, err := r.locker.Lock(ctx, key.LockKey(), append(r.lockOptions(), lockmw.WithWait(0))...)
	if err != nil {
		return lockError(err)
	}
	defer func() { _ = hold.Unlock() }() // the outcome is recorded
	ok := false
	if answer == nil {
		ok, err = r.store.End(ctx, End{Key: key.LockKey(), Run: run, Outcome: Forget})
	} else {
		ok, err = r.keep(ctx, key.LockKey(), run, answer)
	}
	if err == nil && !ok {
		err = fmt.Errorf("%w: it was not the run %s, or it is settled by now", ErrUnknownOutcome, run)
	}
	return err
}
