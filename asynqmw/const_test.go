package asynqmw_test

import (
	"context"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/lockmw"
)

func TestAConstantKeyIsTheSameForAllTasks(t *testing.T) {
	handler := asynqmw.WithLock(lockmw.NewLocal(), asynqmw.Const("report", "nightly"))(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		_, err := lockmw.Held(ctx, "report:nightly")
		return err
	}))
	for _, payload := range []string{"eu", "us"} {
		if err := handler.ProcessTask(t.Context(), asynq.NewTask("report:make", []byte(payload))); err != nil {
			t.Error(err)
		}
	}
}
