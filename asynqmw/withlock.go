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

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/keyed"
	"github.com/lockmw/go/internal/loglimit"
	"github.com/lockmw/go/internal/observe"
	"github.com/lockmw/go/internal/parked"
	"github.com/lockmw/go/internal/waitlimit"
	"github.com/lockmw/go/lockmw"
)

// WithLock returns middleware that processes a task under the lock that key names for it. The
// handler's context carries the hold (lockmw.FromContext, lockmw.Held) and ends with cause
// lockmw.ErrLost if the lock is lost; the attempt then fails with that error, whatever the handler
// returned. The lock is released when the handler has returned or panicked, not at the task's
// deadline; a hold ends 30 seconds after that, unless lockmw.WithMaxHold says otherwise.
//
// It tries once unless lockmw.WithWait says otherwise. A task whose lock is busy is queued again without
// spending a retry, and woken when the lock is free: see WithOnBusy. As long as no other task waits for a worker,
// it may wait for the lock in its own instead, for a second at most. Two kinds of attempts wait until shortly
// before the task's deadline instead, whatever WithWait and WithMaxWaiters say: the last one of a task, unless
// there is WithRescue or half of the workers wait, and every one on a server without Configure. A wait never outlasts the task's deadline.
//
// A task without a valid key is archived without being retried (asynq.SkipRetry), as it will never
// have one; other errors of key fail the attempt. When Redis is unavailable the attempt fails with
// lockmw.ErrUnavailable.
//
// The task's ID is the label of the hold (lockmw.WithLabel), cut to 100 bytes, and with '_' for what is not printable
// ASCII.
//
// WithLock panics if l or key is nil or an option is invalid. The middleware may be used for several
// handlers and is safe for concurrent use.
func WithLock(l lockmw.Locker, key KeyFunc, opts ...Option) asynq.MiddlewareFunc {
	c := newConfig(l, key, opts)
	g := &guard{config: c, locker: l, key: key}
	g.open()
	return func(next asynq.Handler) asynq.Handler {
		if next == nil {
			panic("asynqmw: the handler to lock is nil")
		}
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			return g.process(ctx, task, next)
		})
	}
}

// waitInPlace is how long a task with WithPlaceKept waits for the lock by default: its place is of no use
// to a call that only tries.
const waitInPlace = time.Second

// grace is how long a hold may last after the task's deadline, for a handler that needs a moment to stop.
const grace = 30 * time.Second

type guard struct {
	*config
	locker lockmw.Locker
	key    KeyFunc
	locks  *core.Backend // nil: tasks are not parked
	queues *parked.Store // nil: unknown
	warn   sync.Once
	closed sync.Once
	copies sync.Once

	requeues requeues
	unsaved  loglimit.Limit // of the lines about copies that could not be enqueued
	forged   loglimit.Limit // of the lines about tasks that pass for copies
}

// logger returns the logger of the Locker, as it has no caller to tell.
func (g *guard) logger() *slog.Logger { return observe.LoggerOf(g.locker) }

func (g *guard) process(ctx context.Context, task *asynq.Task, next asynq.Handler) error {
	a := g.newAttempt(ctx, task)
	key, err := g.key(ctx, task)
	if errors.Is(err, lockmw.ErrNoLock) {
		return next.ProcessTask(ctx, task)
	}
	if err == nil && key == "" {
		err = keyed.ErrEmpty
	}
	if err != nil {
		return storable(hopeless(&lockmw.Error{Op: "key", Err: fmt.Errorf("no key for this task: %w", err)}))
	}
	if a.onServer && a.server == nil && g.onBusy == Requeue {
		g.warn.Do(func() {
			g.logger().WarnContext(ctx, "asynqmw: the server's Config was not wrapped in asynqmw.Configure: tasks that meet a busy lock keep their worker until their deadline is near and then spend a retry; on their last attempt they are archived, unless there is WithRescue", "type", task.Type())
		})
	}
	p, w := g.parkerOf(a, key)
	t := g.lockOrLeave(a, task, p, w, key)
	defer t.limit.Release()
	if t.err != nil {
		return storable(g.refused(a, task, t.err))
	}
	if p != nil {
		defer p.holds(w, a)()
	}
	return run(t.ctx, task, next, t.hold)
}

// A taken is what came of a call for a lock. Release the limit in any case: that ends the context.
type taken struct {
	ctx   context.Context
	hold  *lockmw.Hold
	limit waitlimit.Limit
	err   error
}

// lockOrLeave takes the lock. If it is busy, the error says what becomes of the task.
func (g *guard) lockOrLeave(a *attempt, task *asynq.Task, p *parker, w parked.Want, key string) taken {
	mustWait, leave := g.mustWait(a)
	stay, opts := time.Duration(0), []lockmw.Option(nil)
	switch {
	case g.waits || mustWait:
	case g.placeKept > 0 && a.server != nil:
		if a.server.beginStay() {
			leave = a.server.endStay
		} else {
			opts = append(opts, lockmw.WithWait(0)) // its place is kept all the same
		}
	case p != nil && a.requeued > 0: // it was parked here, so it was woken, or is back by the clock
		if stay, leave = p.stay(w, a); stay > 0 {
			opts = append(opts, lockmw.WithWait(stay))
		}
	}
	t := g.lock(a, key, mustWait, opts...)
	leave()
	if mustWait || a.ctx.Err() != nil {
		return t
	}
	if p != nil && isBusy(t.err) {
		t.limit.Release()
		t = g.park(p, w, a, key, !g.waits && stay == 0, t.err)
	}
	if _, left := errors.AsType[*busyError](t.err); !left && a.last && g.onBusy == Requeue && a.ctx.Err() == nil && (isBusy(t.err) || isClosed(t.err)) {
		t.limit.Release()
		return g.save(a, task, p, w, key, t.err)
	}
	return t
}

// lock takes the lock. With mustWait it waits until shortly before the task's deadline. The context of the
// hold does not end then.
func (g *guard) lock(a *attempt, key string, mustWait bool, more ...lockmw.Option) taken {
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
	ctx, hold, err := g.locker.Lock(waiting, key, opts...)
	return taken{ctx, hold, limit, limit.Stop(hold, err, "the task's deadline is near")}
}

// tooOften reports whether the task was put back as often as WithMaxRequeues allows.
func (g *guard) tooOften(a *attempt) bool { return g.maxRequeues > 0 && a.requeued >= g.maxRequeues }

func isBusy(err error) bool {
	return errors.Is(err, lockmw.ErrBusy) || errors.Is(err, lockmw.ErrTooManyWaiters)
}

// isClosed reports whether this process cannot take locks any more. Others can.
func isClosed(err error) bool { return errors.Is(err, lockmw.ErrClosed) }

// refused returns the error for asynq of an attempt that did not get its lock.
func (g *guard) refused(a *attempt, task *asynq.Task, err error) error {
	if left, ok := errors.AsType[*busyError](err); ok {
		if a.last && (left.parked || left.aside) {
			g.restoreLater(a, left)
		}
		return left
	}
	switch {
	case a.ctx.Err() != nil: // asynq ignores the answer
		return hopeless(err)
	case isClosed(err):
		if g.onBusy != Requeue || a.last || a.server == nil && a.onServer {
			return err
		}
		g.closed.Do(func() {
			g.logger().WarnContext(a.ctx, "asynqmw: the lockmw.Client was closed before the asynq server was shut down: the server puts its tasks back", "type", task.Type())
		})
		return g.putBack(a, err)
	case !isBusy(err):
		return hopeless(err)
	case g.onBusy == Drop:
		return &busyError{err: err, drop: true}
	case g.onBusy == Archive:
		return fmt.Errorf("asynqmw: not retried because its lock is busy: %w: %w", err, asynq.SkipRetry)
	case g.onBusy == Fail:
		return err
	case g.tooOften(a):
		return fmt.Errorf("asynqmw: queued again %d times already because its lock was busy: %w", a.requeued, err)
	case a.last:
		return fmt.Errorf("asynqmw: the last attempt waited for its lock until its deadline: %w", err)
	case a.server == nil && a.onServer:
		return fmt.Errorf("asynqmw: waited until the deadline on a server without Configure: %w", err)
	}
	return g.putBack(a, err)
}

func (g *guard) putBack(a *attempt, err error) *busyError {
	if a.onServer {
		g.requeues.set(a.name(), a.requeued+1)
	}
	return &busyError{err: err, delay: g.backOff(a.requeued)}
}

// hopeless marks errors that every retry would meet again.
func hopeless(err error) error {
	if errors.Is(err, lockmw.ErrInvalidKey) && !errors.Is(err, asynq.SkipRetry) {
		return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
	}
	return err
}

// storable returns err with a text that asynq can store with the task: it can end an attempt only with
// an error in UTF-8.
func storable(err error) error {
	if text := err.Error(); !utf8.ValidString(text) {
		return &cleanError{err, strings.ToValidUTF8(text, "\uFFFD")}
	}
	return err
}

// A cleanError is an error with another text.
type cleanError struct {
	error
	text string
}

func (e *cleanError) Error() string { return e.text }
func (e *cleanError) Unwrap() error { return e.error }

// run calls next under the lock and releases it. A loss fails the attempt, whatever next returns.
func run(ctx context.Context, task *asynq.Task, next asynq.Handler, hold *lockmw.Hold) (err error) {
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

// A lostError ends an attempt that lost its lock and whose handler returned an error. It wraps that error
// too, but hides what would make asynq delete or archive the task: the attempt fails.
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
