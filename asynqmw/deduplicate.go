package asynqmw

import (
	"context"
	"errors"
	"fmt"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/middleware"
	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/internal/waitlimit"
	"github.com/lockmw/go/lockmw"
)

// A RunKeyFunc returns the key of the work that a task asks for: two tasks with the same key are the same work. Any function with this
// signature will do; PayloadKey builds one for JSON payloads.
//
// Make the key from what identifies the work, such as the ID of a webhook's event. The ID of the task is not enough: each event that
// comes again is a new task, and all tasks of a schedule can have the same ID. The scope says whose ID it is, such as the tenant or
// the service that sends the events. It must not be empty.
//
// The errors of a RunKeyFunc have the same effects as the errors of a KeyFunc. With lockmw.ErrNoLock the task is processed as without
// Deduplicate.
type RunKeyFunc func(context.Context, *asynq.Task) (idempotency.Key, error)

// PayloadKey builds a RunKeyFunc from fields of the task's payload:
//
//	asynqmw.PayloadKey(func(e Event) idempotency.Key { return idempotency.Key{Scope: e.Account, ID: e.ID} })
//
// The payload must be the JSON of a T: see Payload. PayloadKey panics if fields is nil.
func PayloadKey[T any](fields func(T) idempotency.Key) RunKeyFunc {
	option.NotNil(fields, "asynqmw: PayloadKey: the function is nil")
	return func(_ context.Context, task *asynq.Task) (idempotency.Key, error) {
		payload, err := decode[T](task)
		if err != nil {
			return idempotency.Key{}, err
		}
		return fields(payload), nil
	}
}

// Deduplicate returns middleware that runs the handler once for each key, however many tasks have it. A task whose work is done
// succeeds without its handler.
//
//	event := asynqmw.PayloadKey(func(e Event) idempotency.Key { return idempotency.Key{Scope: e.Account, ID: e.ID} })
//	mux.Handle("order:fulfil", asynqmw.Deduplicate(once, event)(asynq.HandlerFunc(fulfil)))
//
// How the handler ends decides:
//
//   - If it returns nil, the work is done. That is recorded before asynq hears of it.
//   - If it calls idempotency.NotDone, or another middleware of this package inside puts the task back or refuses it, it did nothing.
//     The run is forgotten.
//   - Any other error, also asynq.SkipRetry and asynq.RevokeTask, and a panic leave the outcome unknown, because a part of the work may
//     be done. The next task with the key, such as asynq's retry, runs the handler again: the policy is idempotency.RunAgain, and
//     idempotency.Attempt is above 1.
//
// A task whose work is being done by another one does not spend a retry: it is parked, as a task of WithLock that meets a busy lock,
// with the same exceptions on its last attempt and on a server without Configure. See WithOnBusy for other actions. The WithWait of the
// Runner does not apply.
//
// The attempt fails with an *idempotency.Error in these cases:
//
//   - idempotency.ErrReused: the key belongs to a task with another payload, and this one is archived. The payloads must have the same
//     bytes; headers are not compared.
//   - idempotency.ErrKeyExpired: the task is archived, because the work may have been done (idempotency.WithKeyTime).
//   - idempotency.ErrUnknownOutcome: three runs have never returned, so the task may kill its process. It is archived. Its error names
//     the run for idempotency.Runner.Resolve.
//   - idempotency.ErrNotRecorded: the handler returned nil, but that is not recorded. A retry runs the handler again.
//   - lockmw.ErrUnavailable: nothing has run.
//
// The type of the task belongs to the scope: tasks of two types never share a key. The key of a run is thus
// idempotency.Key{Scope: lockmw.Key("task", task.Type(), scope), ID: id}.
//
// The handler's context carries the run and its lock, and ends when the lock is lost or the Runner's maximum hold has ended. Give the
// Runner an idempotency.WithMaxHold that is longer than the task's timeout, which asynq sets to 30 minutes by default, and shorter
// than the TTL. Mount WithLock inside of Deduplicate, so that a repetition needs no lock.
//
// opts are options of this package, except WithPlaceKept. Options of the lock belong to the Runner: see idempotency.WithLockOptions.
// Deduplicate panics if once or key is nil or an option is invalid. The middleware may be used for several handlers and is safe for
// concurrent use.
func Deduplicate(once *idempotency.Runner, key RunKeyFunc, opts ...Option) asynq.MiddlewareFunc {
	return middlewareOf("run once", newDeduplicator(once, key, opts).process)
}

type deduplicator struct {
	guard
	once *idempotency.Runner
	key  RunKeyFunc
}

func newDeduplicator(once *idempotency.Runner, key RunKeyFunc, opts []Option) *deduplicator {
	if err := once.CheckPolicy(idempotency.RunAgain); err != nil {
		panic(fmt.Errorf("asynqmw: Deduplicate: %w", err))
	}
	option.NotNil(key, "asynqmw: Deduplicate: the key function is nil")
	c := applyOptions("Deduplicate", opts)
	err := c.contradiction(once.Locker())
	switch {
	case len(c.lockOpts) > 0:
		err = fmt.Errorf("%w: an option of package lockmw: give it to the Runner, with idempotency.WithLockOptions", lockmw.ErrInvalidOption)
	case c.placeKept > 0:
		err = fmt.Errorf("%w: WithPlaceKept: the locks of runs keep no places", lockmw.ErrInvalidOption)
	}
	if err != nil {
		panic(fmt.Errorf("asynqmw: Deduplicate: %w", err))
	}
	d := &deduplicator{guard: guard{config: c, locker: once.Locker()}, once: once, key: key}
	d.open()
	return d
}

// errNoRun is the error of an attempt that needs no run of its own. It ends the attempt of a lock, and never reaches asynq.
var errNoRun = errors.New("asynqmw: the task needs no run of its own")

var (
	errIsDone   = fmt.Errorf("%w: its work is done", errNoRun)
	errIsNested = fmt.Errorf("%w: it is nested in a run of its key", errNoRun)
)

func (d *deduplicator) process(ctx context.Context, task *asynq.Task, next asynq.Handler) error {
	a := d.newAttempt(ctx, task)
	key, err := d.keyOf(ctx, task)
	if errors.Is(err, lockmw.ErrNoLock) {
		return next.ProcessTask(ctx, task)
	}
	if err != nil {
		return keyless(ctx, middleware.CheckKey("task", "", err))
	}
	fingerprint := key.Fingerprint([]byte(task.Type()), task.Payload())
	var run *idempotency.Run
	var refused error // of the last call; only that one is reported
	var label string
	a.lock = func(ctx context.Context, opts []lockmw.Option) (_ context.Context, _ waitlimit.Unlocker, err error) {
		p, err := lockmw.NewPolicy(opts...)
		if err != nil {
			return ctx, nil, err
		}
		label = p.Label
		if run, refused = d.once.BeginWithin(ctx, p.Wait, label, key, fingerprint, idempotency.RunAgain); refused != nil {
			return ctx, nil, beginError(refused)
		}
		if _, done := run.Replay(); done {
			return ctx, nil, errIsDone
		}
		return run.Context(), unused{run}, nil
	}
	err = d.under(a, task, key.LockKey(), func(outcome) error { return d.run(ctx, task, run, next) })
	d.once.Refused(ctx, label, key, refused)
	switch {
	case errors.Is(err, errIsDone):
		return nil
	case errors.Is(err, errIsNested):
		return next.ProcessTask(ctx, task)
	}
	return err
}

// keyOf returns the key of a task's run.
func (d *deduplicator) keyOf(ctx context.Context, task *asynq.Task) (idempotency.Key, error) {
	key, err := d.key(ctx, task)
	switch {
	case err != nil:
		return key, err
	case key.Scope == "":
		return key, fmt.Errorf("%w: the key has no scope, so all producers of events would share their IDs", lockmw.ErrInvalidKey)
	case key.ID == "" || len(key.ID) > idempotency.MaxID:
		return key, fmt.Errorf("%w: the ID of the key has %d bytes, must be from 1 to %d", lockmw.ErrInvalidKey, len(key.ID), idempotency.MaxID)
	}
	key.Scope = lockmw.Key("task", task.Type(), key.Scope)
	return key, nil
}

// An unused run was begun too late. It releases its lock like a hold.
type unused struct{ *idempotency.Run }

func (u unused) Unlock() error { return u.Forget() }

// beginError returns the error of a call for a run in the terms of a call for a lock.
func beginError(err error) error {
	e, _ := errors.AsType[*idempotency.Error](err)
	switch {
	case errors.Is(err, idempotency.ErrUnknownOutcome): // it may wrap the others
		if u := e.Unfinished; u != nil {
			err = fmt.Errorf("%w: run %s was the last of %d", err, u.Run, u.Attempts)
		}
		return fmt.Errorf("asynqmw: not run again: %w: %w", err, asynq.SkipRetry)
	case errors.Is(err, idempotency.ErrDone): // the answer does not matter
		return errIsDone
	case errors.Is(err, idempotency.ErrNested):
		return errIsNested
	case errors.Is(err, idempotency.ErrReused), errors.Is(err, idempotency.ErrKeyExpired):
		return fmt.Errorf("asynqmw: not run: %w: %w", err, asynq.SkipRetry)
	case errors.Is(err, idempotency.ErrInFlight) && !middleware.IsBusy(err): // a Store says so
		return fmt.Errorf("%w: %w", lockmw.ErrBusy, err)
	}
	return err
}

// run calls next and ends the run.
func (d *deduplicator) run(ctx context.Context, task *asynq.Task, run *idempotency.Run, next asynq.Handler) (err error) {
	returned := false
	defer func() {
		switch {
		case run.IsNotDone():
			idempotency.NotDone(ctx) // a run outside has done nothing either
			d.note(run, run.Forget())
		case returned && err == nil:
			if kept := run.Keep(idempotency.Answer{}); kept != nil {
				err = storable(kept)
			}
		default:
			d.note(run, run.Leave())
		}
	}()
	err = next.ProcessTask(run.Context(), task)
	returned = true
	return err
}

// note logs that the end of a run could not be recorded. asynq gets the error of the handler.
func (d *deduplicator) note(run *idempotency.Run, err error) {
	if err != nil {
		d.logger().WarnContext(run.Context(), "asynqmw: the end of a run could not be recorded, so its outcome is unknown", "run", run.ID(), "error", err)
	}
}
