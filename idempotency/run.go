package idempotency

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/lockmw"
)

// A Run is what Begin returns: a run of the work that holds the key's lock, or a replay, which describes the recorded run. It
// belongs to one goroutine, except for its context.
//
// Keep, Forget and Leave of a replay, and of a run that has ended, change nothing and return an error that wraps lockmw.ErrNotHeld.
type Run struct {
	replay *Answer
	id     string

	ctx     context.Context
	runner  *Runner
	claim   *claim
	hold    *lockmw.Hold
	token   int64
	attempt int
	began   time.Time
	notDone atomic.Bool
	ended   atomic.Bool
	outer   *Run
}

func newRun(held context.Context, r *Runner, c *claim, hold *lockmw.Hold, rec *Record) *Run {
	run := &Run{id: c.Run, runner: r, claim: c, hold: hold, token: hold.Token(), attempt: rec.Earlier + 1, began: time.Now()}
	run.outer, _ = FromContext(held)
	run.ctx = context.WithValue(held, runKey{}, run)
	return run
}

// newReplay returns the Run of a call that gets the answer of a recorded run.
func newReplay(r *Runner, c *claim, rec *Record, answer *Answer) *Run {
	return &Run{
		replay: answer, id: rec.Run, ctx: c.caller, runner: r, claim: c, token: rec.Token, attempt: rec.Earlier + 1, began: rec.Began,
	}
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
	for run != nil && run.claim.Key != key {
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
// The context of a replay is that of the call of Begin.
func (run *Run) Context() context.Context { return run.ctx }

// ID returns the identity of the run: 128 random bits in hex digits.
func (run *Run) ID() string { return run.id }

// LockKey returns the key of the run's lock, which identifies the record: see Key.LockKey.
func (run *Run) LockKey() string { return run.claim.Key }

// Attempt returns the number of the run: see the function Attempt.
func (run *Run) Attempt() int { return run.attempt }

// Unfinished describes the run, for the Error of middleware that got no answer to record or cannot repeat the recorded one.
func (run *Run) Unfinished() *Unfinished {
	return &Unfinished{Key: run.claim.key, Run: run.id, Token: run.token, Attempts: run.attempt, Began: run.began}
}

// IsNotDone reports whether NotDone was called for the run.
func (run *Run) IsNotDone() bool { return run.notDone.Load() }

// Keep records the answer of the run and releases the lock. Only then may the answer be sent. ErrNotRecorded means that it could
// not be recorded: the caller must not report success. A lost lock does not matter as long as no other run has begun. The end of
// the caller's context does not matter either. If NotDone was called, Keep does the same as Forget.
func (run *Run) Keep(answer Answer) error {
	if run.IsNotDone() {
		return run.Forget()
	}
	defer run.giveUp() // if the Sealer fails or panics
	end, err := run.runner.keeping(run.claim.Key, run.id, &answer)
	if err != nil {
		return run.notRecorded(err)
	}
	switch kept, err := run.end(end); {
	case err != nil:
		return run.notRecorded(err)
	case !kept:
		return run.notRecorded(errNotKept)
	}
	return nil
}

var errNotKept = errors.New("another run has begun, another answer was found out, or the record is gone")

// keeping returns the end of a run that has answered.
func (r *Runner) keeping(key, run string, a *Answer) (End, error) {
	kept := *a
	if len(kept.Body) > r.maxBody {
		kept.Body, kept.NoBody = nil, true
	}
	text, err := kept.encode(r.sealer)
	return End{Key: key, Run: run, Outcome: Keep, Status: a.Status, Answer: text, TTL: r.ttl}, err
}

// notRecorded returns the error of a run whose answer could not be recorded because of err.
func (run *Run) notRecorded(err error) *Error {
	return &Error{Op: "record", Err: fmt.Errorf("%w: %w", ErrNotRecorded, err), Unfinished: run.Unfinished()}
}

// Forget ends a run that did nothing, and releases the lock. A repetition runs the work. If the store does not answer, the
// outcome stays unknown, and Forget returns an error.
func (run *Run) Forget() error { return run.endWith(Forget) }

// Leave ends a run whose outcome is unknown, and releases the lock. The policy of the next repetition decides. If NotDone was
// called, Leave does the same as Forget.
func (run *Run) Leave() error {
	if run.IsNotDone() {
		return run.Forget()
	}
	return run.endWith(Leave)
}

// giveUp is Leave without an error, for a caller that has its own or panics. It does nothing if the run has ended.
func (run *Run) giveUp() { _ = run.Leave() }

// drop is Forget for a run that the caller never sees, so observers are told only that the call was refused.
func (run *Run) drop() error {
	run.ended.Store(true)
	_, err := run.runner.records.finish(run, End{Key: run.claim.Key, Run: run.id, Outcome: Forget})
	return err
}

func (run *Run) endWith(o Outcome) error {
	switch _, err := run.end(End{Key: run.claim.Key, Run: run.id, Outcome: o}); {
	case err == errEnded: //nolint:errorlint // it is not wrapped
		return &Error{Op: "record", Err: err}
	case err != nil:
		return &Error{Op: "record", Err: unavailable(err)}
	}
	return nil
}

// end ends the run once. The client cannot cancel that.
func (run *Run) end(e End) (bool, error) {
	if run.replay != nil || run.ended.Swap(true) {
		return false, errEnded
	}
	ended, err := run.runner.records.finish(run, e)
	run.runner.report(run.claim.caller, run.claim.key, run.claim.lock, outcomeOf(e.Outcome, ended, err))
	return ended, err
}

var errEnded = fmt.Errorf("%w: the run is a replay or has ended before", lockmw.ErrNotHeld)
