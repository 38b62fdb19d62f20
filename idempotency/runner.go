package idempotency

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inproc"
	"github.com/lockmw/go/internal/kinds"
	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
)

// A Runner runs the work of each key once. Make it with New. Safe for concurrent use.
type Runner struct {
	config
	locker   lockmw.Locker
	records  records
	reporter reporter
}

// New returns a Runner whose runs take their locks from l: a *lockmw.Client, a *lockmw.Local, or another exclusive Locker of this
// module. Records of a Client are in its Redis, and records of a Local in its process; any other Locker needs WithStore.
//
// New panics with an error that wraps lockmw.ErrInvalidOption if l is nil or an option is invalid, and with one that wraps
// errors.ErrUnsupported if l cannot be used: a semaphore, a Locker for reading, or a Local with WithStore, whose locks do not
// exclude other processes.
func New(l lockmw.Locker, opts ...Option) *Runner {
	r, err := newRunner(l, opts)
	if err != nil {
		panic(fmt.Errorf("idempotency.New: %w", err))
	}
	return r
}

func newRunner(l lockmw.Locker, opts []Option) (*Runner, error) {
	if option.IsNil(l) {
		return nil, fmt.Errorf("%w: the Locker is nil", lockmw.ErrInvalidOption)
	}
	r := &Runner{locker: l, config: config{ttl: 24 * time.Hour, wait: 5 * time.Second, maxHold: 5 * time.Minute, maxBody: 64 << 10}}
	option.Apply(&r.config, "idempotency.New", opts)
	if err := checkLock(r.lock); err != nil {
		return nil, err
	}
	p, err := lockmw.NewPolicy(r.lock...)
	if known, ok := kinds.PolicyOf(l, r.lock...); ok {
		p = known
	}
	if err == nil {
		err = r.check(p.Lease)
	}
	// These replace defaults of the Locker that contradict a Runner.
	r.lock = append(r.lock, lockmw.WithLease(p.Lease), lockmw.WithMinHold(0), lockmw.WithMaxHold(r.maxHold), lockmw.WithWait(r.wait))
	if err == nil {
		err = lockmw.CheckOptions(l, r.lock...)
	}
	if err == nil {
		r.records, err = r.recordsOf(l)
	}
	if err == nil {
		r.reporter, err = newReporter(l, r.lock)
	}
	return r, err
}

// recordsOf returns the records for the locks of l.
func (r *Runner) recordsOf(l lockmw.Locker) (records, error) {
	var kind core.Kind
	var locks core.Locks
	k, known := kinds.Of(l)
	if known {
		kind, locks = k.Kind(), k.Locks()
	}
	local, isLocal := locks.(*inproc.Locks)
	redis, isRedis := locks.(core.RecordLocks)
	switch {
	case kind.Mode == core.Read || kind.Permits > 0:
		return nil, fmt.Errorf("the locks of a %T may have several holders: %w", l, errors.ErrUnsupported)
	case isLocal && r.store != nil:
		return nil, fmt.Errorf("a Local excludes no other process, and WithStore is shared with others: %w", errors.ErrUnsupported)
	case isLocal:
		return &storeRecords{memoryOf(local), l, r.lock}, nil
	case r.store != nil:
		return &storeRecords{r.store, l, r.lock}, nil
	case isRedis:
		return &redisRecords{l, k, redis, r.lock}, nil
	}
	return nil, fmt.Errorf("a %T needs WithStore: %w", l, errors.ErrUnsupported)
}

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
			return nil, fmt.Errorf("%w: %w", ErrDone, err)
		}
		return &Run{replay: &answer, id: rec.Run}, nil
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
	return &Run{replay: &answer, id: rec.Run}, nil
}

// keeping returns the end of a run that has answered.
func (r *Runner) keeping(key, run string, a *Answer) (End, error) {
	kept := *a
	if len(kept.Body) > r.maxBody {
		kept.Body, kept.NoBody = nil, true
	}
	text, err := kept.encode(r.sealer)
	return End{Key: key, Run: run, Outcome: Keep, Status: a.Status, Answer: text, TTL: r.ttl}, err
}

func newRunID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
