package asynqmw

import (
	"context"
	"errors"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/lockmw"
)

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
