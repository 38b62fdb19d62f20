package idempotency

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/lockmw/go/internal/observe"
	"github.com/lockmw/go/lockmw"
)

// Do runs fn once for the key, and gives every repetition the result of the first run. in is the request: a repetition with
// another one gets ErrReused. Requests and results are compared and kept as JSON, so in, which is passed to fn, and the result
// must have all that matters in exported fields.
//
// The context of fn carries the lock of the key, and ends when it is lost. If fn returns no error, its result is recorded before
// Do returns it. If fn returns an error or panics, the outcome is unknown, because it may have done a part of the work: the
// policy of the next repetition decides. fn calls NotDone if it did nothing.
//
// The error is the error of fn, or an *Error. With ErrNotRecorded fn has returned a result that could not be recorded. Do then
// returns that result as well; the caller must not report success. The same is true of any other *Error with the Op "record": fn
// has called NotDone, and that could not be recorded. With the Op "begin" fn was not called.
func Do[In, Out any](
	ctx context.Context, r *Runner, key Key, in In, policy Policy, fn func(ctx context.Context, in In) (Out, error),
) (out Out, err error) {
	if fn == nil {
		return out, &Error{Op: "begin", Err: fmt.Errorf("%w: the function is nil", lockmw.ErrInvalidOption)}
	}
	text, err := json.Marshal(in)
	if err != nil {
		return out, &Error{Op: "begin", Err: fmt.Errorf("%w: the request is not JSON: %w", lockmw.ErrInvalidOption, err)}
	}
	run, err := r.beginWith(ctx, key, key.Fingerprint(text), policy, nil)
	if err == nil && run.replay != nil {
		err = run.readResult(&out)
	}
	switch {
	case err != nil:
		r.reportRefused(ctx, key, nil, err)
		return out, err
	case run.replay != nil:
		r.report(ctx, key, nil, observe.CallReplayed)
		return out, nil
	}
	defer run.giveUp() // after an error, a panic or runtime.Goexit
	out, err = fn(run.Context(), in)
	if err != nil {
		return out, err
	}
	answer, err := Result(out)
	if err != nil {
		return out, run.notRecorded(err)
	}
	return out, run.Keep(answer)
}

// Result returns the Answer for a result of Do, for the function of Recover.
func Result(value any) (Answer, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return Answer{}, fmt.Errorf("the result is not JSON: %w", err)
	}
	return Answer{Body: text}, nil
}

// readResult reads the result of a replay.
func (run *Run) readResult(out any) error {
	err := ErrDone
	if !run.replay.NoBody {
		if err = json.Unmarshal(run.replay.Body, out); err == nil {
			return nil
		}
		err = fmt.Errorf("%w: the recorded result cannot be read: %w", ErrDone, err)
	}
	return &Error{Op: "begin", Err: err, Unfinished: run.Unfinished()}
}
