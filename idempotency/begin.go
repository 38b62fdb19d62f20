package idempotency

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/lockmw"
)

// A claim is one call of Begin, until it is known whether its run begins.
type claim struct {
	Claim
	caller context.Context
	key    Key
	policy Policy
	lock   []lockmw.Option // of this call

	// Set by redisRecords.
	redis  *core.RecordClaim
	record core.RecordHold // the hold of the call
}

// Begin asks whether the work of a key is to run now. It is for middleware; Do is simpler for a function.
//
// If the work is to run, Begin returns a Run that holds the key's lock. The caller does the work with Run.Context, and then ends
// the run with Keep, Forget or Leave, exactly once. If the work has been done, Begin returns a Run that only has the recorded
// Answer: see Run.Replay. Such a Run needs no end.
//
// Begin waits for a run that is in flight: see WithWait. It returns an *Error. With an error of lockmw, such as ErrUnavailable,
// nothing has run and nothing is recorded. That includes a call whose context ends while its run begins.
func (r *Runner) Begin(ctx context.Context, key Key, f Fingerprint, policy Policy) (*Run, error) {
	run, err := r.beginWith(ctx, key, f, policy, nil)
	if err != nil {
		r.reportRefused(ctx, key, nil, err)
		return nil, err
	}
	r.reportReplay(ctx, key, nil, run)
	return run, nil
}

// beginWith is Begin without a report.
func (r *Runner) beginWith(ctx context.Context, key Key, f Fingerprint, policy Policy, lock []lockmw.Option) (*Run, error) {
	run, err := r.begin(ctx, key, f, policy, lock)
	if err == nil && run.replay == nil && run.ctx.Err() != nil { // the work would only fail, and leave an unknown outcome
		err = errors.Join(beginError(run.ctx, run.ctx.Err()), run.drop())
	}
	if err != nil {
		if e, ok := errors.AsType[*Error](err); ok {
			return nil, e
		}
		return nil, &Error{Op: "begin", Err: err}
	}
	return run, nil
}

func (r *Runner) begin(ctx context.Context, key Key, f Fingerprint, policy Policy, lock []lockmw.Option) (*Run, error) {
	if err := r.checkCall(ctx, key, policy); err != nil {
		return nil, err
	}
	c := &claim{caller: ctx, key: key, policy: policy, lock: lock, Claim: Claim{
		Key: key.LockKey(), Run: newRunID(), Fingerprint: f, Over: policy.again, MaxSilent: maxSilent, TTL: r.ttl,
	}}
	if outer := runOf(ctx, c.Key); outer != nil {
		return nil, ErrNested
	}
	held, hold, rec, err := r.records.lock(ctx, c)
	switch {
	case err != nil:
		return nil, lockError(err)
	case hold == nil:
		return r.settled(c, rec)
	case rec != nil:
		return newRun(held, r, c, hold, rec), nil
	}
	return r.beginUnder(held, c, hold)
}

func (r *Runner) checkCall(ctx context.Context, key Key, policy Policy) error {
	switch {
	case r == nil || r.records == nil:
		return fmt.Errorf("%w: the Runner was not made by New", lockmw.ErrInvalidOption)
	case ctx == nil:
		return fmt.Errorf("%w: the context is nil", lockmw.ErrInvalidOption)
	case !policy.isValid():
		return errNoPolicy
	}
	if err := key.check(); err != nil {
		return err
	}
	if r.keyTime != nil {
		if made, known := r.keyTime(key); known && time.Since(made) > r.ttl {
			return ErrKeyExpired
		}
	}
	return nil
}

// lockError returns the error of a call that did not get the lock: nothing has run.
func lockError(err error) error {
	if errors.Is(err, lockmw.ErrBusy) {
		return fmt.Errorf("%w: %w", ErrInFlight, err)
	}
	return err
}

// unavailable returns the error of a store that could not be asked.
func unavailable(err error) error {
	if errors.Is(err, lockmw.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: the store of idempotency records: %w", lockmw.ErrUnavailable, err)
}

// beginUnder begins the run under the lock of its key.
func (r *Runner) beginUnder(held context.Context, c *claim, hold *lockmw.Hold) (*Run, error) {
	passedOn := false
	defer func() {
		if !passedOn { // nothing has run; the function of Recover may have panicked
			_ = hold.Unlock()
		}
	}()
	for {
		rec, err := r.records.begin(held, hold, c)
		if err != nil {
			passedOn = true
			failed := beginError(held, err)
			r.records.void(held, hold, c, err)
			return nil, failed
		}
		if rec.State == Open && rec.Run == c.Run {
			passedOn = true
			return newRun(held, r, c, hold, &rec), nil
		}
		run, err := r.settled(c, &rec)
		if run == nil && err == nil {
			run, err = r.unfinished(held, c, &rec)
		}
		if run != nil || err != nil {
			return run, err
		}
	}
}

// beginError returns the error of a call whose run could not begin: nothing has run.
func beginError(held context.Context, err error) error {
	switch {
	case errors.Is(err, ErrInFlight):
		return err
	case errors.Is(err, ErrSuperseded) || errors.Is(context.Cause(held), lockmw.ErrLost):
		return fmt.Errorf("%w: before the run began: %w", lockmw.ErrLost, err)
	case held.Err() != nil:
		return fmt.Errorf("%w: %w", lockmw.ErrNotRequested, held.Err())
	}
	return unavailable(err)
}

func newRunID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
