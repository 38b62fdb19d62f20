package asynqmw

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/internal/parked"
	"github.com/lockmw/go/lockmw"
)

// Configure returns cfg with changes, so that a task which WithLock queues again is not a failure:
//
//   - IsFailure returns false for it, and no retry is spent;
//   - RetryDelayFunc returns the delay after which it comes back if nothing wakes it, or that of WithRequeueDelay;
//   - unless cfg has a TaskCheckInterval, a server whose queues are empty looks at them often at first, then about once a second,
//     as asynq does, and whenever it wakes a task, which must not wait for that second. Logger and LogLevel, which asynq uses
//     before each pause, are wrapped: set them before the call. asynq logs the same lines;
//   - ErrorHandler is not called, nor for a task that WithOnBusy(Drop) or WithRescue deletes;
//   - BaseContext carries a mark by which WithLock knows that it may rely on this.
//
// Each asynq server needs a Config of its own from Configure: it counts the workers.
//
// For everything else the functions of cfg are called as before; where it has none, asynq's default
// applies. The values and the end of cfg's own BaseContext reach the handlers. Only a lockmw.Hold in it
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
		if busy, ok := errors.AsType[*busyError](err); ok && busy.putBack() {
			return busy.away()
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
	s.pausesByItself(&cfg)
	cfg.BaseContext = func() context.Context {
		s.idler.taskCame()
		return &rootContext{Context: lockmw.WithoutHolds(base()), server: s, began: time.Now()}
	}
	return cfg
}

// IsBusy reports whether err, which a handler under WithLock has returned, is no failure: the task, or
// a copy of it (see WithRescue), is queued again because its lock is busy or the lockmw.Client is closed.
// It is for middlewares that count or log errors. One that wraps WithLock must return the error as it is,
// or wrapped with %w. For a task that WithOnBusy(Drop) deletes IsBusy is false; that error wraps
// asynq.RevokeTask.
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
	copy  string // the ID of the task that was enqueued instead

	parked bool
	aside  bool // asynq archives the task, if this is its last attempt, and it is restored
}

func (e *busyError) putBack() bool { return !e.drop && e.copy == "" }

// away is how long the task is away if nothing wakes it.
func (e *busyError) away() time.Duration {
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
