package asynqmw

import (
	"context"
	"errors"

	"github.com/hibiken/asynq"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmw/go/internal/jobtrace"
	"github.com/lockmw/go/internal/option"
)

// Headers returns the trace context of ctx for asynq.NewTaskWithHeaders, so that the trace of a request continues in the task that
// it enqueues:
//
//	task := asynq.NewTaskWithHeaders("order:fulfil", payload, asynqmw.Headers(ctx))
//
// It uses otel's global propagator, or W3C trace context and baggage if none is set. The caller may change the map. It is empty if
// ctx has no trace.
func Headers(ctx context.Context) map[string]string { return jobtrace.Inject(ctx) }

// A TraceOption configures Trace.
type TraceOption func(*traceConfig)

type traceConfig = jobtrace.Tracer // an alias, so that the documentation does not show it

// WithProcessLink starts a trace for each attempt of a task, with a link to the span that Headers put into the task. Default: the
// attempt is part of that span's trace. Links suit tasks that run long after they were enqueued, or so often that one trace would
// be too large to read.
func WithProcessLink() TraceOption { return func(c *traceConfig) { c.Link = true } }

// Trace returns middleware that processes each task in an OpenTelemetry span of kind CONSUMER. Its parent is the span that Headers
// put into the task; without one it starts a trace. Mount Trace before WithLock, so that the span covers the wait. If tp is nil,
// the global provider is used. Trace panics if tp is a nil pointer or an option is nil. The middleware is safe for concurrent use.
//
// The span is named "process " and the task's type. An attempt that fails or panics sets its status to Error. An attempt that only
// queues the task again because of a busy lock does not; it has the attribute asynq.task.requeued.
func Trace(tp trace.TracerProvider, opts ...TraceOption) asynq.MiddlewareFunc {
	t := jobtrace.New("asynqmw", tp)
	option.Apply(t, "asynqmw: Trace", opts)
	return middlewareOf("trace", func(ctx context.Context, task *asynq.Task, next asynq.Handler) error {
		ctx, span := t.Start(ctx, task.Headers(), task.Type())
		if span.IsRecording() {
			span.SetAttributes(describe(ctx, task)...)
		}
		return jobtrace.Run(ctx, span, requeued, func(ctx context.Context) error { return next.ProcessTask(ctx, task) })
	})
}

// describe returns the attributes of an attempt, by OpenTelemetry's conventions for messaging.
func describe(ctx context.Context, task *asynq.Task) []attribute.KeyValue {
	attrs := []attribute.KeyValue{
		attribute.String("messaging.system", "asynq"),
		attribute.String("messaging.operation.name", "process"),
		attribute.String("messaging.operation.type", "process"),
		attribute.String("asynq.task.type", task.Type()),
	}
	if queue, ok := asynq.GetQueueName(ctx); ok {
		attrs = append(attrs, attribute.String("messaging.destination.name", queue))
	}
	if id, ok := asynq.GetTaskID(ctx); ok {
		attrs = append(attrs, attribute.String("messaging.message.id", id))
	}
	if retried, ok := asynq.GetRetryCount(ctx); ok {
		attrs = append(attrs, attribute.Int("asynq.task.retried", retried))
	}
	return attrs
}

// requeued returns the attribute of an attempt that ended without a failure because of a busy lock.
func requeued(err error) (attribute.KeyValue, bool) {
	busy, ok := errors.AsType[*busyError](err)
	return attribute.Bool("asynq.task.requeued", ok && !busy.drop), ok
}
