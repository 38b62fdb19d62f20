package idempotency

import (
	"errors"
	"fmt"
	"log/slog"

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
		return fmt.Errorf("%w: the Policy is not set; choose RunAgain, Refuse or Recover", lockmw.ErrInvalidOption)
	}
	return nil
}

// MaxBody returns the greatest size, in bytes, of a body that is kept: see WithMaxBody.
func (r *Runner) MaxBody() int { return r.maxBody }

// Logger returns the logger of the Runner's locks, for middleware. It is never nil.
func (r *Runner) Logger() *slog.Logger { return observe.LoggerOf(r.locker) }
