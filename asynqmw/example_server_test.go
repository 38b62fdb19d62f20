package asynqmw_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/lockmw"
)

// With Configure a busy lock is not a failure, so it spends no retry, and the task comes back soon. Other errors are treated as
// configured.
func ExampleConfigure() {
	cfg := asynqmw.Configure(asynq.Config{ // for asynq.NewServer
		Concurrency:              10,
		DelayedTaskCheckInterval: time.Second,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return time.Hour },
	})

	locks := lockmw.NewLocal() // in production: lockmw.New(rdb)
	fulfil := asynqmw.WithLock(locks, byOrderedItem)(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		return errors.New("out of stock")
	}))
	task := asynq.NewTask("order:fulfil", []byte(`{"Item":"7"}`))
	report := func(what string, err error) {
		fmt.Printf("%s: failure %t, soon again %t\n", what, cfg.IsFailure(err), cfg.RetryDelayFunc(0, err, task) < time.Minute)
	}

	hold := takeItem(locks)
	report("busy lock", fulfil.ProcessTask(context.Background(), task))
	_ = hold.Unlock()
	report("out of stock", fulfil.ProcessTask(context.Background(), task))
	// Output:
	// busy lock: failure false, soon again true
	// out of stock: failure true, soon again false
}

// A request enqueues a task. The task's span continues the trace of the request.
func ExampleTrace() {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)) // in production: nil, the global provider

	ctx, request := provider.Tracer("shop").Start(context.Background(), "POST /orders")
	task := asynq.NewTaskWithHeaders("order:fulfil", []byte(`{"Item":"7"}`), asynqmw.Headers(ctx))
	request.End()

	locks := lockmw.NewLocal()                                                // in production: lockmw.New(rdb)
	fulfil := asynqmw.Trace(provider)(asynqmw.WithLock(locks, byOrderedItem)( // with a mux: mux.Use(asynqmw.Trace(nil))
		asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })))
	if err := fulfil.ProcessTask(context.Background(), task); err != nil {
		fmt.Println(err)
	}

	for _, span := range spans.Ended() {
		fmt.Println(span.Name(), span.SpanKind(), span.SpanContext().TraceID() == request.SpanContext().TraceID())
	}
	// Output:
	// POST /orders internal true
	// process order:fulfil consumer true
}
