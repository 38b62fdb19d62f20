package asynqmw_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func TestALostLockFailsTheAttempt(t *testing.T) {
	broken := errors.New("broken")
	for name, returned := range map[string]error{"of a handler that succeeds": nil, "of a handler that fails": broken} {
		t.Run(name, func(t *testing.T) {
			local := lockmw.NewLocal()
			h := asynqmw.WithLock(local, byItem)(handle(func(ctx context.Context) error {
				local.Expire("item:7")
				<-ctx.Done()
				if cause := context.Cause(ctx); !errors.Is(cause, lockmw.ErrLost) {
					t.Errorf("cause %v", cause)
				}
				return returned
			}))
			err := h.ProcessTask(t.Context(), fulfilItem("7"))
			if !errors.Is(err, lockmw.ErrLost) || returned != nil && !errors.Is(err, returned) {
				t.Errorf("got %v, want ErrLost and %v", err, returned)
			}
		})
	}
}

func TestAnUnconfirmedReleaseDoesNotFailTheAttempt(t *testing.T) {
	l := lockmw.LockerFunc(func(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		ctx, hold := lockmw.NewHold(ctx, key, 1, func(context.Context) error { return lockmw.ErrUnavailable })
		return ctx, hold, nil
	})
	if err := asynqmw.WithLock(l, byItem)(handle(func(context.Context) error { return nil })).ProcessTask(t.Context(), fulfilItem("7")); err != nil {
		t.Error(err)
	}
}

// After the loss, an error that asks asynq to delete, archive or put back the task has no effect.
func TestALostLockFailsTheAttemptWhateverTheHandlerReturns(t *testing.T) {
	broken := errors.New("broken")
	busy := func(ctx context.Context) error {
		local := lockmw.NewLocal()
		usertest.Occupy(t, local, "item:7")
		return asynqmw.WithLock(local, byItem)(never(t)).ProcessTask(context.WithoutCancel(ctx), fulfilItem("7"))
	}
	for name, tt := range map[string]struct {
		handler func(context.Context) error
		says    string
		is      error
	}{
		"to delete the task":           {func(context.Context) error { return asynq.RevokeTask }, "revoke task", nil},
		"to archive the task":          {func(context.Context) error { return fmt.Errorf("no use: %w", asynq.SkipRetry) }, "no use", nil},
		"to put it back":               {busy, "queued again", nil},
		"to put it back for a failure": {func(ctx context.Context) error { return errors.Join(broken, busy(ctx)) }, "broken", broken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			local := lockmw.NewLocal()
			returned := make(chan error, 1)
			h := asynqmw.WithLock(local, byItem)(handle(func(ctx context.Context) error {
				local.Expire("item:7")
				<-ctx.Done()
				return tt.handler(ctx)
			}))
			q := startQueue(t, quick(), asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
				err := h.ProcessTask(ctx, task)
				returned <- err
				return err
			}))
			id := q.fulfil("7")
			err := receive(t, returned)
			if !errors.Is(err, lockmw.ErrLost) || tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v", err)
			}
			if e, ok := errors.AsType[*lockmw.Error](err); !ok || e.ErrorType() != "lock_lost" {
				t.Errorf("its type is that of %v", e)
			}
			if errors.Is(err, asynq.RevokeTask) || errors.Is(err, asynq.SkipRetry) || asynqmw.IsBusy(err) {
				t.Fatalf("asynq would not try the task again: %v", err)
			}
			if info := q.await(id, asynq.TaskStateRetry, asynq.TaskStateArchived); info.State != asynq.TaskStateRetry || info.Retried != 1 {
				t.Errorf("the task is %v, %d retries spent", info.State, info.Retried)
			}
		})
	}
}
