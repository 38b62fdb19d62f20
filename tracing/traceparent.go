package tracing

import (
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmw/go/internal/observe"
)

// traceParentOf returns what is stored with a lock, "" without a span.
func traceParentOf(sc trace.SpanContext) string {
	return observe.TraceParent{
		TraceID: sc.TraceID(), SpanID: sc.SpanID(), Flags: byte(sc.TraceFlags()),
	}.String()
}

// spanContextOf reads what is stored with a lock; it is not valid unless that is a traceparent.
func spanContextOf(traceParent string) trace.SpanContext {
	p, _ := observe.ParseTraceParent(traceParent)
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: p.TraceID, SpanID: p.SpanID, TraceFlags: trace.TraceFlags(p.Flags), Remote: true,
	})
}
