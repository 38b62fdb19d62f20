package integration_test

import (
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/tracing"
)

// A telemetry keeps the reports of an observer and a server.
type telemetry struct {
	t        *testing.T
	spans    *tracetest.SpanRecorder
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	reader   *sdkmetric.ManualReader
	observer *lockmw.Observer
}

func newTelemetry(t *testing.T) *telemetry {
	m := &telemetry{t: t, spans: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader()}
	m.provider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(m.spans))
	m.tracer = m.provider.Tracer("test")
	m.observer = tracing.New(tracing.WithTracerProvider(m.provider),
		tracing.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(m.reader))))
	return m
}

// only returns the single ended span that matches.
func (m *telemetry) only(what string, fits func(sdktrace.ReadOnlySpan) bool) (span sdktrace.ReadOnlySpan) {
	m.t.Helper()
	n := 0
	for _, s := range m.spans.Ended() {
		if fits(s) {
			span = s
			n++
		}
	}
	if n != 1 {
		m.t.Fatalf("%d spans %s have ended, want 1; all: %v", n, what, m.spans.Ended())
	}
	return span
}

func (m *telemetry) span(name string) sdktrace.ReadOnlySpan {
	m.t.Helper()
	return m.only(name, func(s sdktrace.ReadOnlySpan) bool { return s.Name() == name })
}

func (m *telemetry) serverSpan() sdktrace.ReadOnlySpan {
	m.t.Helper()
	return m.only("of a server", func(s sdktrace.ReadOnlySpan) bool { return s.SpanKind() == trace.SpanKindServer })
}

// childOf checks the parent of the spans of these names.
func (m *telemetry) childOf(parent sdktrace.ReadOnlySpan, names ...string) {
	m.t.Helper()
	for _, name := range names {
		if s := m.span(name); !s.Parent().Equal(parent.SpanContext()) {
			m.t.Errorf("%q is not a child of %q", name, parent.Name())
		}
	}
}

// allEnded checks that no span was left open or ends before it starts.
func (m *telemetry) allEnded() {
	m.t.Helper()
	if started, ended := len(m.spans.Started()), len(m.spans.Ended()); started != ended {
		m.t.Errorf("%d spans were started, %d have ended", started, ended)
	}
	for _, s := range m.spans.Ended() {
		if s.EndTime().Before(s.StartTime()) {
			m.t.Errorf("%q lasts %v", s.Name(), s.EndTime().Sub(s.StartTime()))
		}
	}
}

// countersAtZero checks that no call waits or holds a lock.
func (m *telemetry) countersAtZero() {
	m.t.Helper()
	var all metricdata.ResourceMetrics
	if err := m.reader.Collect(m.t.Context(), &all); err != nil {
		m.t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, metric := range scope.Metrics {
			data, _ := metric.Data.(metricdata.Sum[int64]) // a histogram has no points of this type
			if data.IsMonotonic {
				continue
			}
			for _, p := range data.DataPoints {
				if p.Value != 0 {
					m.t.Errorf("%s is %d for %v, want 0", metric.Name, p.Value, p.Attributes.ToSlice())
				}
			}
		}
	}
}

func keyOf(s sdktrace.ReadOnlySpan) string {
	for _, a := range s.Attributes() {
		if a.Key == "distributed_lock.key" {
			return a.Value.AsString()
		}
	}
	return ""
}
