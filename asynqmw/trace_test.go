package asynqmw_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/hibiken/asynq"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// newTracer returns a provider and the spans that have ended.
func newTracer(t *testing.T) (*sdktrace.TracerProvider, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	t.Cleanup(func() { _ = tp.Shutdown(context.Background()) })
	return tp, spans
}

func TestATraceContinuesInTheTaskThatItEnqueues(t *testing.T) {
	t.Parallel()
	tp, spans := newTracer(t)
	inside := make(chan trace.SpanContext, 1)
	q := startQueue(t, quick(), asynqmw.Trace(tp)(asynqmw.WithLock(lockmw.NewLocal(), byItem)(handle(func(ctx context.Context) error {
		inside <- trace.SpanContextFromContext(ctx)
		return nil
	}))))
	ctx, request := tp.Tracer("test").Start(t.Context(), "POST /orders")
	request.End() // before the task's span ends
	id := q.enqueue(asynq.NewTaskWithHeaders("order:fulfil", []byte(`{"Item":"7"}`), asynqmw.Headers(ctx)))
	handler := receive(t, inside)
	eventually(t, func() bool { return len(spans.Ended()) == 2 })
	span := spans.Ended()[1]
	if span.Name() != "process order:fulfil" || span.SpanKind() != trace.SpanKindConsumer {
		t.Errorf("span %q of kind %v", span.Name(), span.SpanKind())
	}
	if span.Parent().SpanID() != request.SpanContext().SpanID() || span.SpanContext().TraceID() != request.SpanContext().TraceID() {
		t.Error("the task's span is not a child of the request's")
	}
	if handler.SpanID() != span.SpanContext().SpanID() {
		t.Error("the handler does not run in the task's span")
	}
	attrs := attribute.NewSet(span.Attributes()...)
	for key, want := range map[attribute.Key]string{
		"messaging.system": "asynq", "messaging.destination.name": "default", "messaging.message.id": id, "asynq.task.type": "order:fulfil",
	} {
		if got, _ := attrs.Value(key); got.AsString() != want {
			t.Errorf("%s is %q, want %q", key, got.AsString(), want)
		}
	}
	if span.Status().Code != codes.Unset {
		t.Errorf("status %v", span.Status())
	}
}

func TestAnAttemptWithALinkStartsATrace(t *testing.T) {
	tp, spans := newTracer(t)
	h := asynqmw.Trace(tp, asynqmw.WithProcessLink())(handle(func(context.Context) error { return nil }))
	ctx, request := tp.Tracer("test").Start(t.Context(), "POST /orders")
	for _, headers := range []map[string]string{asynqmw.Headers(ctx), {}, {"traceparent": "garbage"}} {
		if err := h.ProcessTask(t.Context(), asynq.NewTaskWithHeaders("order:fulfil", nil, headers)); err != nil {
			t.Fatal(err)
		}
	}
	from := request.SpanContext()
	for i, span := range spans.Ended() {
		if span.Parent().IsValid() || span.SpanContext().TraceID() == from.TraceID() {
			t.Errorf("attempt %d is part of another trace", i+1)
		}
		links := span.Links()
		switch {
		case i > 0:
			if len(links) > 0 {
				t.Errorf("attempt %d, enqueued without a trace, links to %v", i+1, links)
			}
		case len(links) != 1 || links[0].SpanContext.SpanID() != from.SpanID() || links[0].SpanContext.TraceID() != from.TraceID():
			t.Errorf("it links to %v, want to the span that enqueued it", links)
		}
	}
}

func TestTheStatusOfATasksSpan(t *testing.T) {
	local := lockmw.NewLocal()
	usertest.Occupy(t, local, "item:7")
	returning := func(err error) asynq.Handler { return handle(func(context.Context) error { return err }) }
	for _, tt := range []struct {
		name     string
		h        asynq.Handler
		code     codes.Code
		requeued bool
	}{
		{"success", returning(nil), codes.Unset, false},
		{"a failure", returning(errors.New("broken")), codes.Error, false},
		{"a busy lock", asynqmw.WithLock(local, byItem)(never(t)), codes.Unset, true},
		{"a busy lock that fails the attempt", asynqmw.WithLock(local, byItem, asynqmw.WithOnBusy(asynqmw.Fail))(never(t)), codes.Error, false},
		{"a panic", handle(func(context.Context) error { panic("a bug") }), codes.Error, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tp, spans := newTracer(t)
			func() {
				defer func() { _ = recover() }()
				_ = asynqmw.Trace(tp)(tt.h).ProcessTask(t.Context(), fulfilItem("7"))
			}()
			if n := len(spans.Ended()); n != 1 {
				t.Fatalf("%d spans ended", n)
			}
			span := spans.Ended()[0]
			if span.Status().Code != tt.code || strings.Contains(span.Status().Description, "item:7") {
				t.Errorf("status %+v, want %v without the key", span.Status(), tt.code)
			}
			attrs := attribute.NewSet(span.Attributes()...)
			if got, _ := attrs.Value("asynq.task.requeued"); got.AsBool() != tt.requeued {
				t.Errorf("requeued is %t", got.AsBool())
			}
		})
	}
}

func TestHeadersWithoutATrace(t *testing.T) {
	headers := asynqmw.Headers(t.Context())
	if headers == nil || len(headers) > 0 {
		t.Errorf("headers %v, want an empty map", headers)
	}
	h := asynqmw.Trace(nil)(handle(func(context.Context) error { return nil }))
	if err := h.ProcessTask(t.Context(), asynq.NewTaskWithHeaders("order:fulfil", nil, headers)); err != nil {
		t.Error(err)
	}
}
