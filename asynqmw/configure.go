package asynqmw

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"
)

// Configure returns cfg changed so that a task which WithLock queues again is not a failure:
//
//   - IsFailure says so, and no retry is spent;
//   - RetryDelayFunc says when to try again;
//   - ErrorHandler is not called, nor for a task dropped by WithOnBusy(Drop);
//   - BaseContext carries a mark by which WithLock knows that it may rely on this.
//
// Functions that cfg has already are asked about everything else; where it has none, asynq's default
// applies. BaseContext's values and end reach the handlers as before, except that a lockmw.Hold in it
// is hidden: tasks would re-enter it and run at the same time.
func Configure(cfg asynq.Config) asynq.Config {
	isFailure, delay, onError, base := cfg.IsFailure, cfg.RetryDelayFunc, cfg.ErrorHandler, cfg.BaseContext
	if isFailure == nil {
		isFailure = func(err error) bool { return err != nil }
	}
	if delay == nil {
		delay = asynq.DefaultRetryDelayFunc
	}
	if base == nil {
		base = context.Background
	}
	cfg.IsFailure = func(err error) bool { return !IsBusy(err) && isFailure(err) }
	cfg.RetryDelayFunc = func(n int, err error, task *asynq.Task) time.Duration {
		if busy, ok := errors.AsType[*busyError](err); ok && !busy.drop {
			return busy.delay
		}
		return delay(n, err, task)
	}
	if onError != nil {
		cfg.ErrorHandler = asynq.ErrorHandlerFunc(func(ctx context.Context, task *asynq.Task, err error) {
			if _, ok := errors.AsType[*busyError](err); !ok {
				onError.HandleError(ctx, task, err)
			}
		})
	}
	cfg.BaseContext = func() context.Context {
		return &rootContext{Context: base(), configured: true}
	}
	return cfg
}

// IsBusy reports whether err, returned by a handler under WithLock, only means that the task is
// queued again because its lock is busy: no failure. For middlewares that count or log errors.
func IsBusy(err error) bool {
	busy, ok := errors.AsType[*busyError](err)
	return ok && !busy.drop
}

// A busyError ends an attempt without a failure: the task goes back into the queue or is dropped.
type busyError struct {
	err   error
	delay time.Duration
	drop  bool
}

func (e *busyError) Error() string {
	if e.drop {
		return "asynqmw: dropped because its lock is busy: " + e.err.Error()
	}
	return "asynqmw: queued again: " + e.err.Error()
}

// Unwrap makes asynq delete a task that is dropped.
func (e *busyError) Unwrap() []error {
	if e.drop {
		return []error{e.err, asynq.RevokeTask}
	}
	return []error{e.err}
}
