package tracing_test

import (
	"errors"
	"fmt"
	"testing"

	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/lockmw/go/tracing"
)

// wantMetrics checks which metrics are reported.
func (m *telemetry) wantMetrics(want func(name string) bool) {
	m.t.Helper()
	for _, name := range allMetrics {
		if got := m.metric(name) != nil; got != want(name) {
			m.t.Errorf("%s is reported: %v, want %v", name, got, want(name))
		}
	}
}

var allMetrics = []string{
	"distributed_lock.wait.duration", "distributed_lock.hold.duration",
	"distributed_lock.waiters", "distributed_lock.held", "distributed_lock.renewals",
	"distributed_lock.idempotent_calls",
}

// A spoilt provider's meters fail to make the instrument of that name.
type spoilt struct {
	metric.MeterProvider
	name   string
	broken bool // instead of nil they return an instrument that panics
}

func (p spoilt) Meter(name string, opts ...metric.MeterOption) metric.Meter {
	return spoiltMeter{p.MeterProvider.Meter(name, opts...), p}
}

type spoiltMeter struct {
	metric.Meter
	spoilt spoilt
}

var errSpoilt = errors.New("cannot make this instrument")

func (m spoiltMeter) Float64Histogram(name string, opts ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	if name != m.spoilt.name {
		return m.Meter.Float64Histogram(name, opts...)
	}
	if m.spoilt.broken {
		return struct{ metric.Float64Histogram }{}, errSpoilt
	}
	return nil, errSpoilt
}

func (m spoiltMeter) Int64UpDownCounter(name string, opts ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	if name != m.spoilt.name {
		return m.Meter.Int64UpDownCounter(name, opts...)
	}
	if m.spoilt.broken {
		return struct{ metric.Int64UpDownCounter }{}, errSpoilt
	}
	return nil, errSpoilt
}

func (m spoiltMeter) Int64Counter(name string, opts ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	if name != m.spoilt.name {
		return m.Meter.Int64Counter(name, opts...)
	}
	if m.spoilt.broken {
		return struct{ metric.Int64Counter }{}, errSpoilt
	}
	return nil, errSpoilt
}

func TestLocksWorkWithoutAnInstrumentThatCannotBeMade(t *testing.T) {
	for _, name := range allMetrics {
		for _, broken := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s broken=%v", name, broken), func(t *testing.T) {
				errs := ignoreErrors(t)
				reader := sdkmetric.NewManualReader()
				meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
				m := newTelemetry(t, tracing.WithMeterProvider(spoilt{meters, name, broken}))
				m.reader = reader
				if len(*errs) != 1 || !errors.Is((*errs)[0], errSpoilt) {
					t.Errorf("OpenTelemetry's error handler got %v, want what went wrong", *errs)
				}
				newScript(m).run()
				m.span("acquire_lock item")
				m.span("hold_lock item")
				m.allEnded()
				m.wantMetrics(func(other string) bool { return other != name })
			})
		}
	}
}

func TestAMetricIsReportedWithoutSpansAndOtherMetrics(t *testing.T) {
	for _, name := range allMetrics {
		t.Run(name, func(t *testing.T) {
			reader := sdkmetric.NewManualReader()
			dropOthers := func(i sdkmetric.Instrument) (sdkmetric.Stream, bool) {
				return sdkmetric.Stream{Aggregation: sdkmetric.AggregationDrop{}}, i.Name != name
			}
			m := newTelemetry(t,
				tracing.WithTracerProvider(forwarding{tracenoop.NewTracerProvider()}),
				tracing.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithView(dropOthers))))
			m.reader = reader
			newScript(m).run()
			m.wantMetrics(func(other string) bool { return other == name })
		})
	}
}
