package tracing_test

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/lockmw/go/internal/observe"
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

// spanAttributes returns the attributes of the two spans of a lock that did not wait.
func spanAttributes() (acquire, hold []attribute.KeyValue) {
	both := []attribute.KeyValue{
		attribute.String("distributed_lock.name", "item"),
		attribute.String("distributed_lock.mode", "exclusive"),
		attribute.String("distributed_lock.operation", "lock"),
		attribute.String("distributed_lock.key", "item:7"),
		attribute.Float64("distributed_lock.lease.duration", 30),
		attribute.String("distributed_lock.outcome", "acquired"),
		attribute.Int64("distributed_lock.fencing_token", 1),
	}
	acquire = append(slices.Clip(both), attribute.Bool("distributed_lock.contended", false))
	hold = append(slices.Clip(both), attribute.Int("distributed_lock.waiters_at_release", 0))
	return acquire, hold
}

// spansAlone does to the SDK what a lock does whose spans are recorded.
func spansAlone() func() {
	tracer := discarding().Tracer("")
	acquire, hold := spanAttributes()
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

// leastObserver makes the same spans in the callbacks of a lock, and does nothing else: what it costs more than spansAlone, any
// observer costs that makes spans.
func leastObserver() *lockmw.Observer {
	tracer := discarding().Tracer("")
	acquire, hold := spanAttributes()
	type callerKey struct{}
	return &lockmw.Observer{
		Start: func(ctx context.Context, _ lockmw.Attempt) context.Context {
			acquiring, _ := tracer.Start(ctx, "acquire_lock item")
			return context.WithValue(acquiring, callerKey{}, ctx)
		},
		TraceParent: func(ctx context.Context) string {
			sc := trace.SpanContextFromContext(ctx)
			return observe.TraceParent{TraceID: sc.TraceID(), SpanID: sc.SpanID(), Flags: byte(sc.TraceFlags())}.String()
		},
		Acquired: func(ctx context.Context, _ lockmw.Attempt, _ lockmw.Acquisition) context.Context {
			span := trace.SpanFromContext(ctx)
			span.SetAttributes(acquire...)
			span.End()
			caller, _ := ctx.Value(callerKey{}).(context.Context)
			holding, _ := tracer.Start(caller, "hold_lock item", trace.WithTimestamp(time.Now()))
			return holding
		},
		Released: func(ctx context.Context, _ lockmw.Attempt, _ lockmw.Release) {
			span := trace.SpanFromContext(ctx)
			span.SetAttributes(hold...)
			span.End()
		},
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

// TestTheCostOfSpans compares what spans add to a lock with the cost of the SDK's spans alone. The batches are short and take
// turns, so that the least of them is right on a busy machine.
func TestTheCostOfSpans(t *testing.T) {
	if os.Getenv("LOCKMW_MEASURE") == "" {
		t.Skip("measures only if LOCKMW_MEASURE is set")
	}
	const batches, runs = 1500, 250
	tracer := tracing.New(tracing.WithTracerProvider(discarding()), tracing.WithMeterProvider(metricnoop.NewMeterProvider()))
	cases := []func(){
		usertest.Uncontended(), spansAlone(), usertest.Uncontended(lockmw.WithObserver(&lockmw.Observer{})),
		usertest.Uncontended(lockmw.WithObserver(leastObserver())), usertest.Uncontended(lockmw.WithObserver(tracer)),
	}
	least := make([]time.Duration, len(cases))
	for range batches {
		for i, run := range cases {
			begun := time.Now()
			for range runs {
				run()
			}
			if took := time.Since(begun) / runs; least[i] == 0 || took < least[i] {
				least[i] = took
			}
		}
	}
	none, sdk := least[0], least[1]
	t.Logf("a lock takes %v, the spans alone %v", none, sdk)
	for i, name := range []string{"no callbacks", "the least observer", "this package"} {
		more := least[2+i] - none
		t.Logf("%s: %v more, %.2f of the spans", name, more, float64(more)/float64(sdk))
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
