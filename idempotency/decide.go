package idempotency

import (
	"context"
	"errors"
	"fmt"
)

// This file decides what a call gets whose key has a record of earlier runs. With the records of a Redis, the script decides first:
// see internal/script/lua/record_acquire.lua.

// isSettled reports whether the record decides, without the lock, what the call gets: settled then returns a Run or an error. A run
// that has committed still holds the lock until it has recorded its answer, so a call waits for that.
func (c *claim) isSettled(rec *Record) bool {
	switch rec.State {
	case None:
		return false
	case Done:
		return true
	default:
		return rec.Fingerprint != c.Fingerprint
	}
}

// settled returns what a call gets whose key has an answer or belongs to another request; neither if the record does not say.
func (r *Runner) settled(c *claim, rec *Record) (*Run, error) {
	switch {
	case rec.State == None:
		return nil, nil
	case rec.Fingerprint != c.Fingerprint:
		return nil, ErrReused
	case rec.State == Done:
		answer, err := decodeAnswer(rec.Answer, r.sealer)
		if err != nil {
			return nil, &Error{Op: "begin", Err: fmt.Errorf("%w: %w", ErrDone, err), Unfinished: c.unfinished(rec)}
		}
		return newReplay(r, c, rec, &answer), nil
	case rec.State == Committed && c.policy.recover == nil:
		return nil, &Error{Op: "begin", Err: ErrDone, Unfinished: c.unfinished(rec)}
	}
	return nil, nil
}

func (c *claim) unfinished(rec *Record) *Unfinished {
	return &Unfinished{
		Key: c.key, Run: rec.Run, Token: rec.Token, Attempts: rec.Earlier + 1, Began: rec.Began, Committed: rec.State == Committed,
	}
}

// unfinished returns what a call gets for a record that an earlier run has left open; neither if the call is to begin once more.
func (r *Runner) unfinished(held context.Context, c *claim, rec *Record) (*Run, error) {
	u := c.unfinished(rec)
	if c.policy.recover == nil {
		return nil, &Error{Op: "begin", Err: ErrUnknownOutcome, Unfinished: u}
	}
	answer, err := c.policy.recover(held, *u)
	switch {
	case errors.Is(err, ErrNotDone) && !u.Committed:
		if _, err := r.records.End(held, End{Key: c.Key, Run: rec.Run, Outcome: Forget}); err != nil {
			return nil, unavailable(err)
		}
		return nil, nil
	case err != nil:
		return nil, &Error{Op: "begin", Err: fmt.Errorf("%w: %w", ErrUnknownOutcome, err), Unfinished: u}
	}
	end, err := r.keeping(c.Key, rec.Run, &answer)
	kept := false
	if err == nil {
		kept, err = r.records.End(held, end)
	}
	switch {
	case err != nil:
		return nil, &Error{Op: "begin", Err: fmt.Errorf("%w: the answer that was found could not be recorded", ErrUnknownOutcome), Unfinished: u}
	case !kept: // the run has ended meanwhile: the record says how
		return nil, nil
	}
	return newReplay(r, c, rec, &answer), nil
}
