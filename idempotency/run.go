package idempotency

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/lockmw"
)

// A Run is what Begin returns: a run of the work that holds the key's lock, or a replay. It belongs to one goroutine, except for
// its context.
type Run struct {
	replay *Answer
	id     string

	ctx     context.Context
	runner  *Runner
	hold    *lockmw.Hold
	key     string // of the lock
	attempt int
	notDone atomic.Bool
	ended   atomic.Bool
	outer   *Run
}

func newRun(held context.Context, r *Runner, c *claim, hold *lockmw.Hold, rec *Record) *Run {
	run := &Run{id: c.Run, runner: r, hold: hold, key: c.Key, attempt: rec.Earlier + 1}
	run.outer, _ = FromContext(held)
	run.ctx = context.WithValue(held, runKey{}, run)
	return run
}

type runKey struct{}

// FromContext returns the innermost run that ctx belongs to.
func FromContext(ctx context.Context) (*Run, bool) {
	run, ok := ctx.Value(runKey{}).(*Run)
	return run, ok
}

// runOf returns the run of that key that ctx belongs to, or nil.
func runOf(ctx context.Context, key string) *Run {
	run, _ := FromContext(ctx)
	for run != nil && run.key != key {
		run = run.outer
	}
	return run
}

// Attempt returns the number of the run that ctx belongs to. It is above 1 if earlier runs of the key left no outcome: they may
// have done the work, or a part of it. It is 0 if ctx belongs to no run.
func Attempt(ctx context.Context) int {
	run, ok := FromContext(ctx)
	if !ok {
		return 0
	}
	return run.attempt
}

// NotDone says that the run that ctx belongs to has done nothing: it is forgotten, whatever it answers, and a repetition runs
// the work. It has no effect if ctx belongs to no run.
func NotDone(ctx context.Context) {
	if run, ok := FromContext(ctx); ok {
		run.notDone.Store(true)
	}
}

// Replay returns the recorded answer, and true if the work is not to run because it was done.
func (run *Run) Replay() (Answer, bool) {
	if run.replay == nil {
		return Answer{}, false
	}
	return *run.replay, true
}

// Context returns the context for the work. It carries the run and its hold, and ends when the lock is lost or the run has ended.
func (run *Run) Context() context.Context { return run.ctx }

// ID returns the identity of the run: 128 random bits in hex digits.
func (run *Run) ID() string { return run.id }

// LockKey returns the key of the run's lock, which identifies the record: see Key.LockKey.
func (run *Run) LockKey() string { return run.key }

// Attempt returns the number of the run: see the function Attempt.
func (run *Run) Attempt() int { return run.attempt }

// IsNotDone reports whether NotDone was called for the run.
func (run *Run) IsNotDone() bool { return run.notDone.Load() }

// endTimeout bounds how long the end of a run waits for the store.
const endTimeout = 5 * time.Second

// Keep records the answer of the run and releases the lock. Only then may the answer be sent. ErrNotRecorded means that it could
// not be recorded: the caller must not report success. A lost lock does not matter as long as no other run has begun. The end of
// the caller's context does not matter either. If NotDone was called, Keep does the same as Forget.
func (run *Run) Keep(answer Answer) error {
	if run.IsNotDone() {
		return run.Forget()
	}
	return run.end(func(ctx context.Context) error {
		kept, err := run.runner.keep(ctx, run.key, run.id, &answer)
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", ErrNotRecorded, err)
		case !kept:
			return fmt.Errorf("%w: another run has begun, or the record is gone", ErrNotRecorded)
		}
		return nil
	})
}

// Forget ends a run that did nothing, and releases the lock. A repetition runs the work. If the store does not answer, the
// outcome stays unknown, and Forget returns an error.
func (run *Run) Forget() error { return run.endWith(Forget) }

// Leave ends a run whose outcome is unknown, and releases the lock. The policy of the next repetition decides.
func (run *Run) Leave() error { return run.endWith(Leave) }

func (run *Run) endWith(o Outcome) error {
	return run.end(func(ctx context.Context) error {
		_, err := run.runner.store.End(ctx, End{Key: run.key, Run: run.id, Outcome: o})
		if err != nil {
			return unavailable(err)
		}
		return nil
	})
}

// end ends the run once. The client cannot cancel that.
func (run *Run) end(record func(ctx context.Context) error) error {
	if run.replay != nil || run.ended.Swap(true) {
		return &Error{Op: "record", Err: errors.New("the run has ended before")}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(run.ctx), endTimeout)
	defer cancel()
	err := record(ctx)
	_ = run.hold.Unlock() // a failed release only delays the next call
	if err != nil {
		return &Error{Op: "record", Err: err}
	}
	return nil
}
