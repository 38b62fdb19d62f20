// Package jobtrace traces the attempts of tasks and jobs with OpenTelemetry, for asynqmw and rivermw.
package jobtrace

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
)

// A Tracer makes the spans of attempts. It is safe for concurrent use.
type Tracer struct {
	tracer trace.Tracer
	// Link makes each attempt start a trace, with a link to the span that enqueued it.
	Link bool
}

// New returns the Tracer of a package. If tp is nil, the global provider is used. New panics if tp is a nil pointer.
func New(pkg string, tp trace.TracerProvider) *Tracer {
	if tp == nil {
		tp = otel.GetTracerProvider()
	}
	option.NotNil(tp, pkg+": Trace: the tracer provider is a nil pointer")
	return &Tracer{tracer: tp.Tracer("github.com/lockmw/go/" + pkg)}
}

// Inject returns the trace context of ctx. It is empty if ctx has no trace.
func Inject(ctx context.Context) propagation.MapCarrier {
	carrier := propagation.MapCarrier{}
	propagator().Inject(ctx, carrier)
	return carrier
}

func propagator() propagation.TextMapPropagator {
	if p := otel.GetTextMapPropagator(); len(p.Fields()) > 0 {
		return p
	}
	return propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
}

// Start begins the span of an attempt, whose work has that kind and was enqueued with that trace context.
func (t *Tracer) Start(ctx context.Context, enqueued propagation.MapCarrier, kind string, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	ctx = propagator().Extract(ctx, enqueued)
	opts := append(make([]trace.SpanStartOption, 0, 4), trace.WithSpanKind(trace.SpanKindConsumer))
	if len(attrs) > 0 {
		opts = append(opts, trace.WithAttributes(attrs...))
	}
	if t.Link {
		opts = append(opts, trace.WithNewRoot())
		if from := trace.LinkFromContext(ctx); from.SpanContext.IsValid() {
			opts = append(opts, trace.WithLinks(from))
		}
	}
	return t.tracer.Start(ctx, "process "+kind, opts...)
}

// Run calls next, and records in the span how the attempt ended. It is not a failure if putBack returns true, which also returns an
// attribute for the span.
func Run(ctx context.Context, span trace.Span, putBack func(error) (attribute.KeyValue, bool), next func(context.Context) error) error {
	defer span.End()
	returned := false
	defer func() {
		if !returned {
			span.SetStatus(codes.Error, "panic")
		}
	}()
	err := next(ctx)
	returned = true
	if err == nil {
		return nil
	}
	if attr, ok := putBack(err); ok {
		span.SetAttributes(attr)
		return err
	}
	kind, text := fmt.Sprintf("%T", err), err.Error()
	if e, ok := errors.AsType[*lockmw.Error](err); ok {
		kind, text = e.ErrorType(), e.ErrorType() // the text contains the key, which a tracer may redact
	}
	span.SetAttributes(attribute.String("error.type", kind))
	span.SetStatus(codes.Error, text)
	return err
}
