package tracing_test

import (
	"context"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/tracing"
)

// A telemetry keeps what an observer reported.
type telemetry struct {
	t        *testing.T
	spans    *tracetest.SpanRecorder
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	reader   *sdkmetric.ManualReader
	observer *lockmw.Observer
}

func newTelemetry(t *testing.T, opts ...tracing.Option) *telemetry {
	return newTelemetryWith(t, sdktrace.AlwaysSample(), opts...)
}

func newTelemetryWith(t *testing.T, sampler sdktrace.Sampler, opts ...tracing.Option) *telemetry {
	spans, reader := tracetest.NewSpanRecorder(), sdkmetric.NewManualReader()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans), sdktrace.WithSampler(sampler))
	opts = append([]tracing.Option{
		tracing.WithTracerProvider(provider),
		tracing.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))),
	}, opts...)
	return &telemetry{
		t: t, spans: spans, reader: reader,
		provider: provider, tracer: provider.Tracer("test"), observer: tracing.New(opts...),
	}
}

// span returns the one ended span of that name.
func (m *telemetry) span(name string) sdktrace.ReadOnlySpan {
	m.t.Helper()
	var found []sdktrace.ReadOnlySpan
	for _, s := range m.spans.Ended() {
		if s.Name() == name {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		m.t.Fatalf("%d spans %q have ended, want 1; all: %v", len(found), name, m.names())
	}
	return found[0]
}

func (m *telemetry) names() []string {
	var names []string
	for _, s := range m.spans.Ended() {
		names = append(names, s.Name())
	}
	return names
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

func attributesOf(s sdktrace.ReadOnlySpan) map[attribute.Key]any { return asMap(s.Attributes()) }

func asMap(attrs []attribute.KeyValue) map[attribute.Key]any {
	m := make(map[attribute.Key]any)
	for _, a := range attrs {
		m[a.Key] = a.Value.AsInterface()
	}
	return m
}

// sum returns the value of a counter, added up over the points with these attributes.
func (m *telemetry) sum(metric string, attrs ...attribute.KeyValue) (total int64) {
	m.t.Helper()
	data, _ := m.metric(metric).(metricdata.Sum[int64])
	for _, p := range data.DataPoints {
		if has(p.Attributes, attrs) {
			total += p.Value
		}
	}
	return total
}

// histogram returns the points of a histogram with these attributes.
func (m *telemetry) histogram(metric string, attrs ...attribute.KeyValue) (points []metricdata.HistogramDataPoint[float64]) {
	m.t.Helper()
	data, _ := m.metric(metric).(metricdata.Histogram[float64])
	for _, p := range data.DataPoints {
		if has(p.Attributes, attrs) {
			points = append(points, p)
		}
	}
	return points
}

func has(set attribute.Set, attrs []attribute.KeyValue) bool {
	for _, a := range attrs {
		if v, ok := set.Value(a.Key); !ok || v.String() != a.Value.String() {
			return false
		}
	}
	return true
}

func (m *telemetry) metric(name string) metricdata.Aggregation {
	m.t.Helper()
	for _, got := range m.collect() {
		if got.Name == name {
			return got.Data
		}
	}
	return nil
}

func (m *telemetry) collect() []metricdata.Metrics {
	m.t.Helper()
	var all metricdata.ResourceMetrics
	if err := m.reader.Collect(context.Background(), &all); err != nil {
		m.t.Fatal(err)
	}
	var metrics []metricdata.Metrics
	for _, scope := range all.ScopeMetrics {
		metrics = append(metrics, scope.Metrics...)
	}
	return metrics
}

// countersAtZero checks that no call waits or holds any more.
func (m *telemetry) countersAtZero() {
	m.t.Helper()
	for _, name := range []string{"distributed_lock.waiters", "distributed_lock.held"} {
		data, _ := m.metric(name).(metricdata.Sum[int64])
		for _, p := range data.DataPoints {
			if p.Value != 0 {
				m.t.Errorf("%s is %d for %v, want 0", name, p.Value, p.Attributes.ToSlice())
			}
		}
	}
}

func outcome(o string) attribute.KeyValue { return attribute.String("distributed_lock.outcome", o) }

func mustNotContain(t *testing.T, where, text, secret string) {
	t.Helper()
	if strings.Contains(text, secret) {
		t.Errorf("%s contains the key: %s", where, text)
	}
}
