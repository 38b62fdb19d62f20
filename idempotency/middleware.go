package idempotency

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockmw/go/internal/observe"
	"github.com/lockmw/go/lockmw"
)

// CheckPolicy returns an error if Begin fails with this Policy whatever the key: the Runner was not made by New, or the Policy is not
// set. Middleware calls it when it is mounted, so that a mistake shows before the first request.
func (r *Runner) CheckPolicy(p Policy) error {
	switch {
	case r == nil:
		return errors.New("the Runner is nil")
	case r.locker == nil:
		return errors.New("the Runner was not made by New")
	case !p.isValid():
		return errNoPolicy
	}
	return nil
}

var errNoPolicy = fmt.Errorf("%w: the Policy is not set; choose RunAgain, Refuse or Recover", lockmw.ErrInvalidOption)

// MaxBody returns the greatest size, in bytes, of a body that is kept: see WithMaxBody.
func (r *Runner) MaxBody() int { return r.maxBody }

// Logger returns the logger of the Runner's locks, for middleware. It is never nil.
func (r *Runner) Logger() *slog.Logger { return observe.LoggerOf(r.locker) }

// Locker returns the Locker of the runs, for middleware that looks after calls that do not wait. Do not lock the keys of runs with it.
func (r *Runner) Locker() lockmw.Locker { return r.locker }

// BeginWithin is Begin with its own wait instead of WithWait's: how long the call waits for a run that is in flight. 0: it does not
// wait. The label, if not empty, is that of the run's lock, unless WithLockOptions sets one. It is for middleware that can come back
// later.
//
// The Observer of the locks is not told about an error, because the middleware may try again. Call Refused with the last one.
func (r *Runner) BeginWithin(ctx context.Context, wait time.Duration, label string, key Key, f Fingerprint, policy Policy) (*Run, error) {
	opts := append(labelled(label), lockmw.WithWait(wait))
	run, err := r.beginWith(ctx, key, f, policy, opts)
	if err != nil {
		return nil, err
	}
	r.reportReplay(ctx, key, opts, run)
	return run, nil
}

// Refused tells the observers of the locks that a call ran nothing, whose last BeginWithin returned err: see
// lockmw.Observer. Nothing happens if err is nil.
func (r *Runner) Refused(ctx context.Context, label string, key Key, err error) {
	if err != nil {
		r.reportRefused(ctx, key, labelled(label), err)
	}
}

func labelled(label string) []lockmw.Option {
	if label == "" {
		return nil
	}
	return []lockmw.Option{lockmw.WithDefaults(lockmw.WithLabel(label))}
}
