package tracing_test

import (
	"context"
	"testing"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/tracing"
)

var raceDetector bool

// Observers by what they cost.
func observers() map[string]*lockmw.Observer {
	noMetrics := tracing.WithMeterProvider(metricnoop.NewMeterProvider())
	reader := sdkmetric.NewManualReader()
	return map[string]*lockmw.Observer{
		"empty":   {},
		"noop":    tracing.New(tracing.WithTracerProvider(tracenoop.NewTracerProvider()), noMetrics),
		"unset":   tracing.New(),
		"sampled": tracing.New(tracing.WithTracerProvider(sdktrace.NewTracerProvider()), noMetrics),
		"unsampled": tracing.New(noMetrics, tracing.WithTracerProvider(
			sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())))),
		"metrics": tracing.New(tracing.WithTracerProvider(tracenoop.NewTracerProvider()),
			tracing.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))),
	}
}

func uncontended(o *lockmw.Observer) func() {
	local := lockmw.NewLocal(lockmw.WithObserver(o))
	ctx := context.Background()
	return func() {
		_, hold, err := local.Lock(ctx, "item:7")
		if err == nil {
			err = hold.Unlock()
		}
		if err != nil {
			panic(err)
		}
	}
}

func TestAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	all := observers()
	empty := testing.AllocsPerRun(1000, uncontended(all["empty"]))
	// The SDK itself makes 8 of the last: for either span the span, its context, its attributes and a
	// timestamp. The others are the attempt and its traceparent.
	for name, most := range map[string]float64{"noop": 3, "metrics": 3, "sampled": 10} {
		if got := testing.AllocsPerRun(1000, uncontended(all[name])) - empty; got > most {
			t.Errorf("%s: %v allocations more than without observer, want at most %v", name, got, most)
		}
	}
}

func BenchmarkUncontended(b *testing.B) {
	for name, o := range observers() {
		b.Run(name, func(b *testing.B) {
			run := uncontended(o)
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
		})
	}
}
