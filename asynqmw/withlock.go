package asynqmw

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/loglimit"
	"github.com/lockmw/go/internal/middleware"
	"github.com/lockmw/go/internal/observe"
	"github.com/lockmw/go/internal/parked"
	"github.com/lockmw/go/internal/waitlimit"
	"github.com/lockmw/go/lockmw"
)

// WithLock returns middleware that runs the handler under the lock whose key the function key returns. The handler's context
// carries the hold (lockmw.FromContext, lockmw.Held) and ends with cause lockmw.ErrLost if the lock is lost. The attempt then fails
// with that error, whatever the handler returns. The lock is released when the handler returns or panics, not at the task's
// deadline. By default a hold ends 30 seconds after the deadline; lockmw.WithMaxHold changes this.
//
// By default the middleware tries once; lockmw.WithWait makes the task wait in its worker. A task whose lock is still busy is queued
// again without spending a retry, and woken when the lock is free: see WithOnBusy. While no other task waits for a worker, it may
// first wait for the lock in its own worker, for at most a second.
//
// Two kinds of attempts wait until shortly before the task's deadline, whatever WithWait and WithMaxWaiters say: the last attempt of
// a task, unless WithRescue is set or half of the workers wait, and every attempt on a server without Configure. A wait never
// outlasts the task's deadline. If such a wait ends early with lockmw.ErrDeadlock, the task is put back on its last attempt; an
// earlier attempt, on a server without Configure, spends a retry.
//
// A task without a valid key is archived without a retry (asynq.SkipRetry), because a retry could not succeed. Other errors of key
// fail the attempt. If Redis is unavailable, the attempt fails with lockmw.ErrUnavailable.
//
// The task's ID is the label of the hold. It is cut to 100 bytes, and characters other than printable ASCII become '_'.
// lockmw.WithLabel sets another label.
//
// WithLock panics if l or key is nil or an option is invalid. The middleware may be used for several handlers and is safe for
// concurrent use.
func WithLock(l lockmw.Locker, key KeyFunc, opts ...Option) asynq.MiddlewareFunc {
	g := &guard{config: newConfig(l, key, opts), locker: l}
	g.open()
	return middlewareOf("lock", func(ctx context.Context, task *asynq.Task, next asynq.Handler) error {
		return g.process(ctx, task, key, next)
	})
}

// middlewareOf returns middleware that calls process with each task and the next handler. what says what becomes of the handler.
func middlewareOf(what string, process func(context.Context, *asynq.Task, asynq.Handler) error) asynq.MiddlewareFunc {
	return func(next asynq.Handler) asynq.Handler {
		if next == nil {
			panic("asynqmw: the handler to " + what + " is nil")
		}
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error { return process(ctx, task, next) })
	}
}

// waitInPlace is how long a task with WithPlaceKept waits for the lock by default. A call that only tries would not benefit from
// its place.
const waitInPlace = time.Second

// grace is how long a hold may last after the task's deadline, for a handler that needs a moment to stop.
const grace = 30 * time.Second

type guard struct {
	*config
	locker lockmw.Locker
	locks  *core.Backend // nil: tasks cannot be parked
	queues *parked.Store // nil: the Redis of the queues is unknown
	warn   sync.Once
	closed sync.Once
	copies sync.Once

	requeues requeues
	unsaved  loglimit.Limit // of lines about copies that could not be enqueued
	forged   loglimit.Limit // of lines about tasks that falsely claim to be copies
}

// logger returns the logger of the Locker. asynq has no caller that could receive a warning.
func (g *guard) logger() *slog.Logger { return observe.LoggerOf(g.locker) }

func (g *guard) process(ctx context.Context, task *asynq.Task, keyOf KeyFunc, next asynq.Handler) error {
	a := g.newAttempt(ctx, task)
	key, err := keyOf(ctx, task)
	if errors.Is(err, lockmw.ErrNoLock) {
		return next.ProcessTask(ctx, task)
	}
	if err := middleware.CheckKey("task", key, err); err != nil {
		return keyless(ctx, err)
	}
	a.lock = func(ctx context.Context, opts []lockmw.Option) (context.Context, waitlimit.Unlocker, error) {
		return g.locker.Lock(ctx, key, opts...)
	}
	return g.under(a, task, key, func(t outcome) error { return run(t.ctx, task, next, t.hold) })
}

// keyless returns the error that asynq receives for a task without a key, from the error of its key. A run of a Deduplicate outside
// has done nothing.
func keyless(ctx context.Context, err error) error {
	idempotency.NotDone(ctx)
	return storable(withSkipRetry(err))
}

// under takes the lock of an attempt and calls work, which releases it. Without the lock it returns the error that says what happens
// to the task, and a run of a Deduplicate outside has done nothing.
func (g *guard) under(a *attempt, task *asynq.Task, key string, work func(outcome) error) error {
	if a.onServer && a.server == nil && g.onBusy == Requeue {
		g.warn.Do(func() {
			g.logger().WarnContext(a.ctx, "asynqmw: the server's Config is not from asynqmw.Configure: tasks that meet a busy lock occupy their workers until shortly before their deadline and then spend a retry; on their last attempt they are archived, unless WithRescue is set", "type", task.Type())
		})
	}
	p, w := g.parkerOf(a, key)
	t := g.lockOrLeave(a, task, p, w)
	defer t.limit.Release()
	switch {
	case errors.Is(t.err, errNoRun):
		if p != nil {
			p.passes(w, a)
		}
		return t.err
	case t.err != nil:
		idempotency.NotDone(a.ctx)
		return storable(g.refused(a, task, t.err))
	}
	if p != nil {
		defer p.holds(w, a)()
	}
	return work(t)
}

// An outcome is the result of a call for a lock. Always release the limit, which ends the context.
type outcome struct {
	ctx   context.Context
	hold  waitlimit.Unlocker
	limit waitlimit.Limit
	err   error
}

// lockOrLeave takes the lock. If the lock is busy, the error says what happens to the task.
func (g *guard) lockOrLeave(a *attempt, task *asynq.Task, p *parker, w parked.ListID) outcome {
	mustWait, leave := g.mustWait(a)
	stay, opts := time.Duration(0), []lockmw.Option(nil)
	switch {
	case g.waits || mustWait:
	case g.placeKept > 0 && a.server != nil:
		if a.server.beginWait() {
			leave = a.server.endWait
		} else {
			opts = append(opts, lockmw.WithWait(0)) // the place is kept all the same
		}
	case p != nil && a.requeued > 0: // it was parked here, and has been woken or has come back by the clock
		stay, leave = p.stay(w, a)
	}
	var t outcome
	if stay > 0 {
		t = g.lockWithin(a, stay)
	} else {
		t = g.lock(a, mustWait, opts...)
	}
	leave()
	if p != nil && isRefused(t.err) {
		p.noteRefusal()
	}
	if mustWait && !isDeadlock(t.err) || a.ctx.Err() != nil {
		return t
	}
	if p != nil && middleware.IsBusy(t.err) {
		t.limit.Release()
		t = g.park(p, w, a, !mustWait && !g.waits && stay == 0, t.err)
	}
	if _, left := errors.AsType[*busyError](t.err); !left && a.last && g.onBusy == Requeue && a.ctx.Err() == nil && (middleware.IsBusy(t.err) || isClosed(t.err)) {
		t.limit.Release()
		return g.save(a, task, p, w, t.err)
	}
	return t
}

// lock takes the lock. With mustWait it waits until shortly before the task's deadline. The limit of the wait does not end the
// hold's context.
func (g *guard) lock(a *attempt, mustWait bool, more ...lockmw.Option) outcome {
	opts := make([]lockmw.Option, 0, len(g.lockOpts)+6)
	patience := time.Duration(0)
	if g.placeKept > 0 {
		patience = waitInPlace
	}
	opts = append(opts, lockmw.WithDefaults(lockmw.WithWait(patience)))
	remaining, margin, longest := time.Duration(0), time.Duration(0), time.Duration(0)
	if a.limited {
		remaining = time.Until(a.deadline)
		margin = min(remaining/5, 2*time.Second) // for the answer to reach asynq in time
		opts = append(opts, lockmw.WithDefaults(lockmw.WithMaxHold(max(0, remaining)+grace)))
		longest = remaining - margin/2
	}
	if id, ok := asynq.GetTaskID(a.ctx); ok {
		opts = append(opts, lockmw.WithDefaults(lockmw.WithLabel(core.Label(id))))
	}
	opts = append(opts, g.lockOpts...)
	if g.placeKept > 0 && a.origin != "" {
		opts = append(opts, lockmw.WithPlace(placeID(a.name()), g.placeKept))
	}
	if mustWait {
		wait := lockmw.Forever
		if a.limited {
			wait = max(0, remaining-margin)
		}
		opts = append(opts, lockmw.WithWait(wait), lockmw.WithMaxWaiters(0))
	}
	opts = append(opts, more...)
	waiting, limit := waitlimit.Start(a.ctx, longest)
	ctx, hold, err := a.lock(waiting, opts)
	return outcome{ctx, hold, limit, limit.Stop(hold, err, "the task's deadline is near")}
}

// lockWithin is lock for a task that stays in its worker while the lock is busy. A server that answers later than that gets as much
// time as with a task that only tries.
func (g *guard) lockWithin(a *attempt, stay time.Duration) outcome {
	t := g.lock(a, false, lockmw.WithWait(stay))
	if stay > 0 && errors.Is(t.err, core.ErrNoAnswer) {
		t.limit.Release()
		t = g.lock(a, false, lockmw.WithWait(0))
	}
	return t
}

// tooOften reports whether the task has used up WithMaxRequeues.
func (g *guard) tooOften(a *attempt) bool { return g.maxRequeues > 0 && a.requeued >= g.maxRequeues }

// isClosed reports whether this process can no longer take locks. Other processes can.
func isClosed(err error) bool { return errors.Is(err, lockmw.ErrClosed) }

// isDeadlock reports whether a wait ended early because it would never have got the lock. Other locks of the task block other calls.
func isDeadlock(err error) bool { return errors.Is(err, lockmw.ErrDeadlock) }

// refused returns the error that asynq receives for an attempt without its lock.
func (g *guard) refused(a *attempt, task *asynq.Task, err error) error {
	if left, ok := errors.AsType[*busyError](err); ok {
		if a.last && (left.parked || left.aside) {
			g.restoreLater(a, left)
		}
		return left
	}
	switch {
	case a.ctx.Err() != nil: // asynq ignores the error
		return withSkipRetry(err)
	case isClosed(err):
		if g.onBusy != Requeue || a.last || a.server == nil && a.onServer {
			return err
		}
		g.closed.Do(func() {
			g.logger().WarnContext(a.ctx, "asynqmw: the lockmw.Client was closed before the asynq server: the server puts its tasks back; shut down the server first", "type", task.Type())
		})
		return g.putBack(a, err)
	case !middleware.IsBusy(err):
		return withSkipRetry(err)
	case g.onBusy == Drop:
		return &busyError{err: err, drop: true}
	case g.onBusy == Archive:
		return fmt.Errorf("asynqmw: not retried because its lock is busy: %w: %w", err, asynq.SkipRetry)
	case g.onBusy == Fail:
		return err
	case g.tooOften(a):
		return fmt.Errorf("asynqmw: queued again %d times already because its lock was busy: %w", a.requeued, err)
	case isDeadlock(err) && (a.last || a.server == nil && a.onServer): // the error says why it did not wait longer
		return err
	case a.last:
		return fmt.Errorf("asynqmw: the last attempt waited for its lock until shortly before its deadline: %w", err)
	case a.server == nil && a.onServer:
		return fmt.Errorf("asynqmw: waited for its lock until shortly before its deadline, on a server without Configure: %w", err)
	}
	return g.putBack(a, err)
}

func (g *guard) putBack(a *attempt, err error) *busyError {
	if a.onServer {
		g.requeues.set(a.name(), a.requeued+1)
	}
	return &busyError{err: err, delay: g.backOff(a.requeued)}
}

// withSkipRetry adds asynq.SkipRetry to errors that every retry would meet again.
func withSkipRetry(err error) error {
	if errors.Is(err, lockmw.ErrInvalidKey) && !errors.Is(err, asynq.SkipRetry) {
		return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
	}
	return err
}

// storable returns err with a text in UTF-8. With any other text asynq could neither store the error nor end the attempt.
func storable(err error) error {
	if text := err.Error(); !utf8.ValidString(text) {
		return &cleanError{err, strings.ToValidUTF8(text, "\uFFFD")}
	}
	return err
}

// A cleanError replaces the text of an error.
type cleanError struct {
	error
	text string
}

func (e *cleanError) Error() string { return e.text }
func (e *cleanError) Unwrap() error { return e.error }

// run calls next under the lock and then releases it. A loss fails the attempt, whatever next returns.
func run(ctx context.Context, task *asynq.Task, next asynq.Handler, hold waitlimit.Unlocker) (err error) {
	defer func() {
		lost := hold.Unlock()
		if !core.IsLoss(lost) {
			return
		}
		if err == nil {
			err = lost
		} else {
			err = &lostError{lost: lost, returned: err}
		}
	}()
	return next.ProcessTask(ctx, task)
}

// A lostError ends an attempt that lost its lock and whose handler returned an error. It also wraps the handler's error, but hides
// asynq.RevokeTask and asynq.SkipRetry, so that asynq neither deletes nor archives the task.
type lostError struct{ lost, returned error }

func (e *lostError) Error() string {
	return e.lost.Error() + "; the handler returned: " + e.returned.Error()
}

func (e *lostError) Unwrap() error { return e.lost }

func (e *lostError) Is(target error) bool {
	return target != asynq.RevokeTask && target != asynq.SkipRetry && errors.Is(e.returned, target)
}

func (e *lostError) As(target any) bool {
	_, control := target.(**busyError)
	return errors.As(e.lost, target) || !control && errors.As(e.returned, target)
}
