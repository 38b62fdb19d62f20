package grpcmw

import (
	"context"
	"errors"
	"log/slog"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/loglimit"
	"github.com/lockmw/go/lockmw"
)

// A journal logs the runs of Idempotent whose outcome is unknown, with what an operator needs for idempotency.Runner.Resolve. No
// line contains the key or the scope.
type journal struct {
	logger   *slog.Logger
	refusals loglimit.Limit
}

// refused records that a call was refused because of an earlier run. Lines about each run are rate-limited, as clients repeat
// calls.
func (j *journal) refused(ctx context.Context, method string, err error) {
	e, ok := errors.AsType[*idempotency.Error](err)
	if !ok || !errors.Is(err, idempotency.ErrUnknownOutcome) || e.Unfinished == nil {
		return
	}
	if missed, ok := j.refusals.Allow(e.Unfinished.Run); ok {
		j.logger.WarnContext(ctx, "grpcmw: a call was refused because the outcome of an earlier run is unknown",
			"method", method, "error", err, "run", e.Unfinished.Run, "attempt", e.Unfinished.Attempts, "suppressed", missed)
	}
}

// unknown records that the outcome of a run is unknown. code is empty if the handler has not returned, and cause is why the run's
// context has ended, if it has.
func (j *journal) unknown(ctx context.Context, method string, run *idempotency.Run, code string, cause error) {
	j.logger.WarnContext(ctx, "grpcmw: the outcome of a run is unknown",
		"method", method, "error", cause, "run", run.ID(), "attempt", run.Attempt(), "code", code)
}

// failed records that the end of a run could not be recorded because of err; nothing if that is nil or the run had ended before.
func (j *journal) failed(ctx context.Context, method string, run *idempotency.Run, err error) {
	if err != nil && !errors.Is(err, lockmw.ErrNotHeld) {
		j.logger.WarnContext(ctx, "grpcmw: the end of a run could not be recorded, so its outcome is unknown",
			"method", method, "error", err, "run", run.ID(), "attempt", run.Attempt())
	}
}
