package asynqmw

import (
	"context"
	"errors"
	"fmt"

	"github.com/hibiken/asynq"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
)

const scopeName = "github.com/lockmw/go/asynqmw"

// Headers returns the trace context of ctx for asynq.NewTaskWithHeaders, so that the trace of a request continues in the task that
// it enqueues:
//
//	task := asynq.NewTaskWithHeaders("order:fulfil", payload, asynqmw.Headers(ctx))
//
// It uses otel's global propagator, or W3C trace context and baggage if none is set. The caller may change the map. It is empty if
// ctx has no trace.
func Headers(ctx context.Context) map[string]string {
	headers := propagation.MapCarrier{}
	propagator().Inject(ctx, headers)
	return headers
}

// A TraceOption configures Trace.
type TraceOption func(*traceConfig)

type traceConfig struct{ link bool }

// WithProcessLink starts a trace for each attempt of a task, with a link to the span that Headers put into the task. Default: the
// attempt is part of that span's trace. Links suit tasks that run long after they were enqueued, or so often that one trace would
// be too large to read.
func WithProcessLink() TraceOption { return func(c *traceConfig) { c.link = true } }

// start begins the span of an attempt.
func (c *traceConfig) start(ctx context.Context, tracer trace.Tracer, task *asynq.Task) (context.Context, trace.Span) {
	ctx = propagator().Extract(ctx, propagation.MapCarrier(task.Headers()))
	opts := append(make([]trace.SpanStartOption, 0, 3), trace.WithSpanKind(trace.SpanKindConsumer))
	if c.link {
		opts = append(opts, trace.WithNewRoot())
		if from := trace.LinkFromContext(ctx); from.SpanContext.IsValid() {
			opts = append(opts, trace.WithLinks(from))
		}
	}
	return tracer.Start(ctx, "process "+task.Type(), opts...)
}

// Trace returns middleware that processes each task in an OpenTelemetry span of kind CONSUMER. Its parent is the span that Headers
// put into the task; without one it starts a trace. Mount Trace before WithLock, so that the span covers the wait. If tp is nil,
// the global provider is used. Trace panics if tp is a nil pointer or an option is nil. The middleware is safe for concurrent use.
//
// The span is named "process " and the task's type. An attempt that fails or panics sets its status to Error. An attempt that only
// queues the task again because of a busy lock does not; it has the attribute asynq.task.requeued.
func Trace(tp trace.TracerProvider, opts ...TraceOption) asynq.MiddlewareFunc {
	if tp == nil {
		tp = otel.GetTracerProvider()
	}
	if option.IsNil(tp) {
		panic("asynqmw: Trace: the tracer provider is a nil pointer")
	}
	c := &traceConfig{}
	option.Apply(c, "asynqmw: Trace", opts)
	tracer := tp.Tracer(scopeName)
	return func(next asynq.Handler) asynq.Handler {
		if next == nil {
			panic("asynqmw: the handler to trace is nil")
		}
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			ctx, span := c.start(ctx, tracer, task)
			defer span.End()
			if !span.IsRecording() {
				return next.ProcessTask(ctx, task)
			}
			span.SetAttributes(describe(ctx, task)...)
			returned := false
			defer func() {
				if !returned {
					span.SetStatus(codes.Error, "panic")
				}
			}()
			err := next.ProcessTask(ctx, task)
			returned = true
			conclude(span, err)
			return err
		})
	}
}

func propagator() propagation.TextMapPropagator {
	if p := otel.GetTextMapPropagator(); len(p.Fields()) > 0 {
		return p
	}
	return propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
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

// conclude records in the span how the attempt ended.
func conclude(span trace.Span, err error) {
	if err == nil {
		return
	}
	if busy, ok := errors.AsType[*busyError](err); ok {
		span.SetAttributes(attribute.Bool("asynq.task.requeued", !busy.drop))
		return
	}
	kind, text := fmt.Sprintf("%T", err), err.Error()
	if e, ok := errors.AsType[*lockmw.Error](err); ok {
		kind, text = e.ErrorType(), e.ErrorType() // the text contains the key, which a tracer may redact
	}
	span.SetAttributes(attribute.String("error.type", kind))
	span.SetStatus(codes.Error, text)
}
