package main

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/codes"

	"github.com/lockmw/go/examples/internal/clock"
	"github.com/lockmw/go/examples/orders/internal/telemetry"
	"github.com/lockmw/go/lockmw"
)

// conditions configures a shop.
type conditions struct {
	locked        bool
	bank, carrier func(context.Context) error // slow external services
	admit         func(context.Context) error // called before a task is enqueued
	deliveries    int                         // number of simultaneous deliveries of each task
	turn          time.Duration               // how long an order waits for its item
	patience      time.Duration               // how long a task waits for it in its worker
	observer      *lockmw.Observer            // additional observer of all locks; may be nil
}

// usual returns the conditions of a sale. asynq delivers at least once. In practice two simultaneous
// deliveries are rare (an enqueue that timed out and was repeated, a worker wrongly believed dead);
// here every task has two.
func usual(locked bool) conditions {
	return conditions{
		locked:     locked,
		bank:       func(ctx context.Context) error { return clock.Sleep(ctx, 10*time.Millisecond) },
		carrier:    func(ctx context.Context) error { return clock.Sleep(ctx, 20*time.Millisecond) },
		admit:      func(context.Context) error { return nil },
		deliveries: 2,
		turn:       5 * time.Second,
		patience:   250 * time.Millisecond,
	}
}

// outside calls an external service in its own span.
func (s *shop) outside(ctx context.Context, name string, call func(context.Context) error) error {
	ctx, span := s.tracer.Tracer(telemetry.Service).Start(ctx, name)
	defer span.End()
	err := call(ctx)
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	return err
}
