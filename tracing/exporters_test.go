package tracing_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/lockmw/go/internal/test/exhibit"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/tracing"
)

// An exporterFunc exports spans.
type exporterFunc func(context.Context, []sdktrace.ReadOnlySpan) error

func (f exporterFunc) ExportSpans(ctx context.Context, s []sdktrace.ReadOnlySpan) error {
	return f(ctx, s)
}

func (exporterFunc) Shutdown(context.Context) error { return nil }

func TestAnExporterThatFailsFailsNoLock(t *testing.T) {
	errs := ignoreErrors(t)
	m := newTelemetry(t, tracing.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(
		exporterFunc(func(context.Context, []sdktrace.ReadOnlySpan) error { return errors.New("disk full") })))))
	exhibit.Run(t, "item:7", m.observer)
	m.countersAtZero()
	if len(*errs) == 0 {
		t.Error("nothing was exported")
	}
}

// A panicking is a span processor with a mistake.
type panicking struct {
	discard
	start, end string // names of spans
}

func (p panicking) OnStart(_ context.Context, s sdktrace.ReadWriteSpan) {
	if s.Name() == p.start {
		panic("started " + p.start)
	}
}

func (p panicking) OnEnd(s sdktrace.ReadOnlySpan) {
	if s.Name() == p.end {
		panic("ended " + p.end)
	}
}

func TestASpanProcessorThatPanicsHarmsNoLock(t *testing.T) {
	usertest.DefaultLog(t)
	for _, p := range []panicking{
		{start: "acquire_lock item"}, {end: "acquire_lock item"}, {start: "hold_lock item"}, {end: "hold_lock item"},
	} {
		t.Run(p.start+p.end, func(t *testing.T) {
			other := newTelemetry(t)
			provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p))
			m := newTelemetry(t, tracing.WithTracerProvider(provider))
			exhibit.Run(t, "item:7", m.observer, other.observer)
			m.countersAtZero()
			other.countersAtZero()
			other.allEnded()
			local := lockmw.NewLocal(lockmw.WithObserver(m.observer))
			ctx, outer := usertest.Lock(t, t.Context(), local, "item:7")
			_, inner := usertest.Lock(t, ctx, local, "user:42")
			if held := m.sum("distributed_lock.held"); held == 0 {
				t.Error("a lock in one whose span was spoilt is not reported")
			}
			usertest.Unlock(t, inner)
			usertest.Unlock(t, outer)
			m.countersAtZero()
		})
	}
}

func TestProvidersMayShutDownWhileLocksAreHeldAndWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans := tracetest.NewInMemoryExporter()
		tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
		meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
		o := tracing.New(tracing.WithTracerProvider(tracers), tracing.WithMeterProvider(meters))
		local := lockmw.NewLocal(lockmw.WithObserver(o))

		_, first := usertest.Lock(t, t.Context(), local, "item:7")
		_, lost := usertest.Lock(t, t.Context(), local, "item:8")
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, second := usertest.Lock(t, t.Context(), local, "item:7")
			usertest.Unlock(t, second)
		}()
		synctest.Wait()
		exported := len(spans.GetSpans())
		if err := errors.Join(tracers.Shutdown(t.Context()), meters.Shutdown(t.Context())); err != nil {
			t.Fatal(err)
		}
		usertest.Refused(t, t.Context(), local, "item:7", lockmw.WithWait(time.Second))
		usertest.Unlock(t, first)
		<-done
		local.Expire("item:8")
		if err := lost.Unlock(); !errors.Is(err, lockmw.ErrLost) {
			t.Error(err)
		}
		_, next := usertest.Lock(t, t.Context(), local, "item:7")
		usertest.Unlock(t, next)
		if exported != 2 || len(spans.GetSpans()) != 0 { // a shut down exporter of this kind has none
			t.Errorf("%d spans were exported before the shutdown, want 2; %d after it", exported, len(spans.GetSpans()))
		}
	})
}
