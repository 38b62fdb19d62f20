package asynqmw

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/internal/parked"
	"github.com/lockmw/go/lockmw"
)

// Configure tells asynq that a busy lock is not a failure, and wakes waiting tasks sooner. It returns cfg with these fields changed:
//
//   - IsFailure returns false for a task that WithLock queues again, so that no retry is spent.
//   - RetryDelayFunc returns the time after which such a task comes back if nothing wakes it, or the time of WithRequeueDelay.
//   - ErrorHandler is not called for such a task, nor for a task that WithOnBusy(Drop) or WithRescue deletes.
//   - BaseContext carries a mark by which WithLock recognises the server. It hides a lockmw.Hold, which tasks would re-enter
//     together. The values and the end of the caller's context reach the handlers.
//   - TaskCheckInterval, Logger and LogLevel change unless cfg sets a TaskCheckInterval. asynq asks empty queues for tasks once a
//     second, which is too slow for a task that was woken. An idle server now asks often at first, then about once a second, and
//     immediately when it wakes a task. asynq logs the same lines as before. Set Logger and LogLevel before you call Configure.
//
// For all other errors the functions of cfg are called as before, or asynq's defaults if cfg has none.
//
// Call Configure once for each asynq server: the result counts that server's workers.
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
		if busy, ok := errors.AsType[*busyError](err); ok && busy.putBack() {
			return busy.retryIn()
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
	s := newServer(cfg.Concurrency)
	s.adjustPauses(&cfg)
	cfg.BaseContext = func() context.Context {
		s.idler.taskCame()
		return &rootContext{Context: lockmw.WithoutHolds(base()), server: s, began: time.Now()}
	}
	return cfg
}

// IsBusy reports whether a task was only queued again, so that middlewares do not count or log the error as a failure. err is the
// error of a handler under WithLock. IsBusy is true if the task, or a copy of it (see WithRescue), is queued again because its
// lock is busy or the lockmw.Client is closed. Middleware around WithLock must return the error as it is or wrapped with %w.
//
// IsBusy is false for a task that WithOnBusy(Drop) deletes; that error wraps asynq.RevokeTask.
func IsBusy(err error) bool {
	busy, ok := errors.AsType[*busyError](err)
	return ok && !busy.drop
}

// A busyError ends an attempt without a failure: the task goes back into the queue or is deleted.
type busyError struct {
	err   error
	delay time.Duration
	due   time.Time // instead of delay, if it was parked
	drop  bool
	copy  string // the ID of the copy that was enqueued instead

	parked bool
	aside  bool // asynq archives the task, and asynqmw restores it
}

func (e *busyError) putBack() bool { return !e.drop && e.copy == "" }

// retryIn returns the time after which the task comes back if nothing wakes it.
func (e *busyError) retryIn() time.Duration {
	if e.parked {
		return parked.Delay(e.due)
	}
	return e.delay
}

func (e *busyError) Error() string {
	switch {
	case e.drop:
		return "asynqmw: dropped because its lock is busy: " + e.err.Error()
	case e.copy != "":
		return "asynqmw: queued again as " + e.copy + ": " + e.err.Error()
	case e.parked:
		return "asynqmw: parked: " + e.err.Error()
	}
	return "asynqmw: queued again: " + e.err.Error()
}

// Unwrap makes asynq delete a task that does not go back into the queue.
func (e *busyError) Unwrap() []error {
	if e.putBack() {
		return []error{e.err}
	}
	return []error{e.err, asynq.RevokeTask}
}
