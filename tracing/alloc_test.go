package tracing_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/tracing"
)

// A price is what an observer adds to a lock and its release.
type price struct {
	name     string
	observer *lockmw.Observer
	most     float64 // allocations; one of them is lockmw's, for any observer
	sdk      bool    // and those of the SDK
}

func prices() []price {
	noMetrics := tracing.WithMeterProvider(metricnoop.NewMeterProvider())
	noSpans := tracing.WithTracerProvider(tracenoop.NewTracerProvider())
	metrics := tracing.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())))
	always := tracing.WithTracerProvider(discarding())
	never := tracing.WithTracerProvider(discarding(sdktrace.WithSampler(sdktrace.NeverSample())))
	nothing := tracing.WithFilter(func(context.Context, lockmw.Attempt) bool { return false })
	return []price{
		{name: "empty", observer: &lockmw.Observer{}, most: 1},
		{name: "filtered", observer: tracing.New(always, metrics, nothing), most: 1},
		{name: "noop", observer: tracing.New(noSpans, noMetrics), most: 1},
		{name: "unset", observer: tracing.New(), most: 4},
		{name: "unsampled", observer: tracing.New(never, noMetrics), most: 7},
		{name: "metrics", observer: tracing.New(noSpans, metrics), most: 3},
		{name: "sampled", observer: tracing.New(always, noMetrics), most: 3, sdk: true},
		{name: "sampled, metrics", observer: tracing.New(always, metrics), most: 3, sdk: true},
	}
}

// discarding returns a provider whose spans are recorded and dropped.
func discarding(opts ...sdktrace.TracerProviderOption) *sdktrace.TracerProvider {
	return sdktrace.NewTracerProvider(append(opts, sdktrace.WithSpanProcessor(discard{}))...)
}

type discard struct{}

func (discard) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (discard) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (discard) Shutdown(context.Context) error                  { return nil }
func (discard) ForceFlush(context.Context) error                { return nil }

// spansAlone does to the SDK what a lock does whose spans are recorded.
func spansAlone() func() {
	tracer := discarding().Tracer("")
	both := []attribute.KeyValue{
		attribute.String("distributed_lock.name", "item"),
		attribute.String("distributed_lock.mode", "exclusive"),
		attribute.String("distributed_lock.operation", "lock"),
		attribute.String("distributed_lock.key", "item:7"),
		attribute.Float64("distributed_lock.lease.duration", 30),
		attribute.String("distributed_lock.outcome", "acquired"),
		attribute.Int64("distributed_lock.fencing_token", 1),
	}
	acquire := append(slices.Clip(both), attribute.Bool("distributed_lock.contended", false))
	hold := append(slices.Clip(both), attribute.Int("distributed_lock.waiters_at_release", 0))
	ctx := context.Background()
	return func() {
		_, span := tracer.Start(ctx, "acquire_lock item")
		span.SetAttributes(acquire...)
		span.End()
		_, span = tracer.Start(ctx, "hold_lock item", trace.WithTimestamp(time.Now()))
		span.SetAttributes(hold...)
		span.End()
	}
}

func TestAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	const runs = 1000
	none, sdk := testing.AllocsPerRun(runs, usertest.Uncontended()), testing.AllocsPerRun(runs, spansAlone())
	t.Logf("a lock makes %v allocations, two spans of the SDK %v", none, sdk)
	for _, p := range prices() {
		most := p.most
		if p.sdk {
			most += sdk
		}
		got := testing.AllocsPerRun(runs, usertest.Uncontended(lockmw.WithObserver(p.observer))) - none
		t.Logf("%s: %v more", p.name, got)
		if got > most {
			t.Errorf("%s: %v allocations more than without an observer, want at most %v", p.name, got, most)
		}
	}
}

// BenchmarkLock is an uncontended lock and its release: the difference to "none" is what an
// observer costs. Of that of "sampled", the SDK has what BenchmarkSpansAlone shows.
func BenchmarkLock(b *testing.B) {
	b.Run("none", func(b *testing.B) { benchmark(b, usertest.Uncontended()) })
	for _, p := range prices() {
		b.Run(p.name, func(b *testing.B) { benchmark(b, usertest.Uncontended(lockmw.WithObserver(p.observer))) })
	}
}

func BenchmarkSpansAlone(b *testing.B) { benchmark(b, spansAlone()) }

func benchmark(b *testing.B, run func()) {
	b.ReportAllocs()
	for b.Loop() {
		run()
	}
}
