package rivermw

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/loglimit"
	"github.com/lockmw/go/internal/middleware"
	"github.com/lockmw/go/internal/observe"
	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
)

// WithLock returns middleware that runs a job's worker under the lock whose key the function key returns. The worker's context
// carries the hold (lockmw.FromContext, lockmw.Held) and ends with cause lockmw.ErrLost if the lock is lost. The attempt then fails
// with that error, whatever the worker returns. The lock is released when the worker returns or panics, not at the job's timeout.
//
// A job whose lock is busy first waits in its worker, for a second by default (lockmw.WithWait) and within WithMaxWaiting. This
// wait does not use up the job's timeout. If the lock is still busy, the job is snoozed: see WithOnBusy, WithSnooze and WithWaker.
// A snooze spends no attempt, so it also saves a job on its last attempt.
//
// A job without a valid key is cancelled, because a retry could not succeed. Other errors of key fail the attempt. If Redis is
// unavailable, the attempt fails with lockmw.ErrUnavailable; the last attempt is snoozed instead, so that an outage discards no job.
//
// The job's kind and ID are the label of the hold, such as invoice/7. It is cut to 100 bytes, and characters other than printable
// ASCII become '_'. lockmw.WithLabel sets another label.
//
// Make the middleware once, and return it from the Middleware method of the workers that need the lock. WithLock panics if l or key
// is nil or an option is invalid. The middleware is safe for concurrent use.
func WithLock(l lockmw.Locker, key KeyFunc, opts ...Option) rivertype.WorkerMiddleware {
	option.NotNil(l, "rivermw: WithLock: the Locker is nil")
	option.NotNil(key, "rivermw: WithLock: the key function is nil")
	c := newConfig(l, opts)
	g := &guard{config: c, locker: l, key: key, places: make(chan struct{}, c.waiting)}
	return river.WorkerMiddlewareFunc(g.work)
}

// waitInPlace is how long a job waits for its lock in its worker by default.
const waitInPlace = time.Second

type guard struct {
	config
	locker lockmw.Locker
	key    KeyFunc
	places chan struct{} // one element for each job that may be waiting in its worker
	lines  loglimit.Limit
}

func (g *guard) work(ctx context.Context, job *rivertype.JobRow, next func(context.Context) error) error {
	ctx = ownContext(ctx)
	key, err := g.key(ctx, job)
	if errors.Is(err, lockmw.ErrNoLock) {
		return next(ctx)
	}
	if err := middleware.CheckKey("job", key, err); err != nil {
		return cancelInvalid(err)
	}
	a := attempt{job, key, max(0, snoozesOf(job).InARow)}
	held, hold, err := g.lock(ctx, a)
	if err != nil {
		return g.refused(ctx, a, err)
	}
	a.setSnoozes(ctx, 0)
	g.waker.refill(g, key)
	return run(held, hold, next)
}

// lock takes the lock. The job may wait for it if there is a place, and if none of its key is snoozed that came before.
func (g *guard) lock(ctx context.Context, a attempt) (context.Context, *lockmw.Hold, error) {
	opts := make([]lockmw.Option, 0, len(g.lockOpts)+4)
	opts = append(opts, lockmw.WithDefaults(lockmw.WithWait(waitInPlace), lockmw.WithLabel(core.Label(a.name()))))
	opts = append(opts, g.lockOpts...)
	if g.placeKept > 0 {
		opts = append(opts, lockmw.WithPlace(a.place(), g.placeKept))
	}
	if g.waker.mayWait(g, a) {
		select {
		case g.places <- struct{}{}:
			defer func() { <-g.places }()
		default:
			opts = append(opts, lockmw.WithWait(0))
		}
	} else {
		opts = append(opts, lockmw.WithWait(0))
	}
	return g.locker.Lock(ctx, a.key, opts...)
}

// refused returns the error that river receives for an attempt without its lock.
func (g *guard) refused(ctx context.Context, a attempt, err error) error {
	closed := errors.Is(err, lockmw.ErrClosed) && g.onBusy == Snooze
	last := errors.Is(err, lockmw.ErrUnavailable) && a.job.Attempt >= a.job.MaxAttempts
	switch {
	case ctx.Err() != nil: // river looks at the cause: a stop spends no attempt, and JobCancel cancels the job
	case last, closed:
		if _, ok := g.lines.Allow(loglimit.KindOf(err)); ok {
			observe.LoggerOf(g.locker).WarnContext(ctx, "rivermw: jobs are snoozed because their locks cannot be taken", slog.Any("error", err))
		}
		return g.snooze(ctx, a, err)
	case !middleware.IsBusy(err):
		err = cancelInvalid(err)
	case g.onBusy == Drop:
		return nil
	case g.onBusy == Cancel:
		err = river.JobCancel(fmt.Errorf("rivermw: cancelled because its lock is busy: %w", err))
	case g.onBusy == Snooze && (g.maxSnoozes == 0 || a.snoozes < g.maxSnoozes):
		return g.snooze(ctx, a, err)
	case g.onBusy == Snooze:
		err = fmt.Errorf("rivermw: snoozed %d times already because its lock was busy: %w", a.snoozes, err)
	}
	a.setSnoozes(ctx, 0)
	return err
}

// cancelInvalid makes river cancel a job whose key is invalid.
func cancelInvalid(err error) error {
	if errors.Is(err, lockmw.ErrInvalidKey) {
		return river.JobCancel(err)
	}
	return err
}

// run calls next under the lock and then releases it. A loss fails the attempt, whatever next returns: river must not complete,
// snooze or cancel a job that may have run alongside another one.
func run(ctx context.Context, hold *lockmw.Hold, next func(context.Context) error) (err error) {
	defer func() {
		lost := hold.Unlock()
		switch {
		case !core.IsLoss(lost):
		case err == nil:
			err = lost
		default:
			err = fmt.Errorf("%w; the worker returned: %v", lost, err) //nolint:errorlint // hides river's control errors
		}
	}()
	return next(ctx)
}

// An attempt is one run of a job that needs a lock.
type attempt struct {
	job     *rivertype.JobRow
	key     string
	snoozes int // how often in a row the job was snoozed because of its lock
}

func (a attempt) name() string { return a.job.Kind + "/" + strconv.FormatInt(a.job.ID, 10) }

// place names the job's place in the queue of a fair lock. Jobs of two databases may have the same ID.
func (a attempt) place() string {
	return strconv.FormatInt(a.job.ID, 10) + "/" + strconv.FormatInt(a.job.CreatedAt.UnixNano(), 36)
}

type ownKey struct{}

// ownContext hides a hold of the context with which the client was started: all jobs would share it. A lock of an outer WithLock
// stays visible.
func ownContext(ctx context.Context) context.Context {
	if ctx.Value(ownKey{}) != nil {
		return ctx
	}
	return context.WithValue(lockmw.WithoutHolds(ctx), ownKey{}, true)
}
