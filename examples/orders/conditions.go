package main

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/codes"

	"github.com/lockmw/go/examples/internal/clock"
	"github.com/lockmw/go/examples/orders/internal/telemetry"
	"github.com/lockmw/go/lockmw"
)

// conditions are what a shop works under.
type conditions struct {
	locked        bool
	bank, carrier func(context.Context) error // what is slow, and outside this program
	admit         func(context.Context) error // is called before a task is enqueued
	deliveries    int                         // how often each task is delivered, at the same time
	patience      time.Duration               // of a task that finds its item locked, in its worker
	observer      *lockmw.Observer            // of all locks, beside the others; may be nil
}

// usual are the conditions of a sale. asynq delivers at least once. That a task is delivered twice at
// the same time is rare in life (an enqueue that timed out and was repeated, a worker wrongly believed
// dead); here it happens to all.
func usual(locked bool) conditions {
	return conditions{
		locked:     locked,
		bank:       func(ctx context.Context) error { return clock.Sleep(ctx, 10*time.Millisecond) },
		carrier:    func(ctx context.Context) error { return clock.Sleep(ctx, 20*time.Millisecond) },
		admit:      func(context.Context) error { return nil },
		deliveries: 2,
		patience:   250 * time.Millisecond,
	}
}

// outside calls what is outside this program, in a span of its own.
func (s *shop) outside(ctx context.Context, name string, call func(context.Context) error) error {
	ctx, span := s.tracer.Tracer(telemetry.Service).Start(ctx, name)
	defer span.End()
	err := call(ctx)
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	return err
}
