package tracing_test

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"testing"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/lockmw/go/internal/test/exhibit"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/tracing"
)

// account is what was reported of an exhibit: spans and points of metrics, counted.
func (m *telemetry) account() map[string]int {
	counts := make(map[string]int)
	for _, s := range m.spans.Ended() {
		a := attributesOf(s)
		counts[fmt.Sprint(s.Name(), a["distributed_lock.mode"], a["distributed_lock.outcome"], len(s.Links()))]++
	}
	for fact := range metricsSeen(m.collect()) {
		counts[fact]++
	}
	for _, p := range m.histogram("distributed_lock.wait.duration") {
		counts["waits"] += int(p.Count)
	}
	for _, p := range m.histogram("distributed_lock.hold.duration") {
		counts["holds"] += int(p.Count)
	}
	return counts
}

// A tally counts the calls of an observer by their names, and panics in each if it is to.
type tally struct {
	panics bool
	mu     sync.Mutex
	calls  map[string]int
}

func (c *tally) count(call string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = make(map[string]int)
	}
	c.calls[call]++
	if c.panics {
		panic(call)
	}
}

func (c *tally) observer() *lockmw.Observer {
	return &lockmw.Observer{
		TraceParent: func(context.Context) string { c.count("traceparent"); return "" },
		Contended:   func(context.Context, lockmw.Attempt, lockmw.Contention) { c.count("contended") },
		Acquired: func(ctx context.Context, _ lockmw.Attempt, _ lockmw.Acquisition) context.Context {
			c.count("acquired")
			return ctx
		},
		Failed:   func(context.Context, lockmw.Attempt, error) { c.count("failed") },
		Renewed:  func(context.Context, lockmw.Attempt, error) { c.count("renewed") },
		Lost:     func(context.Context, lockmw.Attempt, error) { c.count("lost") },
		Released: func(context.Context, lockmw.Attempt, lockmw.Release) { c.count("released") },
	}
}

func TestEachOfSeveralObserversIsToldEverything(t *testing.T) {
	usertest.DefaultLog(t)
	alone, only := newTelemetry(t), &tally{}
	exhibit.Run(t, "item:7", alone.observer)
	exhibit.Run(t, "item:7", only.observer())
	if len(only.calls) != 7 {
		t.Errorf("the exhibit leads to these calls only: %v", only.calls)
	}
	for _, panics := range []bool{false, true} {
		first, second := newTelemetry(t), newTelemetry(t)
		before, between, after := &tally{panics: panics}, &tally{panics: panics}, &tally{}
		exhibit.Run(t, "item:7", before.observer(), first.observer, between.observer(), second.observer, after.observer())
		renewals := after.calls["renewed"] // which exhibits differ in
		only.calls["renewed"] = renewals
		for _, m := range []*telemetry{first, second} {
			if got, want := m.account(), alone.account(); !maps.Equal(got, want) {
				t.Errorf("with others, panics %v: %v\nalone: %v", panics, got, want)
			}
			if got := m.sum("distributed_lock.renewals"); got != int64(renewals) {
				t.Errorf("with others, panics %v: %d renewals, want %d", panics, got, renewals)
			}
			m.allEnded()
			m.countersAtZero()
		}
		delete(only.calls, "traceparent") // only those up to the first that has one are called
		for _, c := range []*tally{before, between, after} {
			delete(c.calls, "traceparent")
			if !maps.Equal(c.calls, only.calls) {
				t.Errorf("with others, panics %v: %v\nalone: %v", panics, c.calls, only.calls)
			}
		}
	}
}

// forwarding is a provider of no type that is known to do nothing.
type forwarding struct{ trace.TracerProvider }

func TestProvidersThatMakeNoSpansLeaveTheCallersCurrent(t *testing.T) {
	caller, span := newTelemetry(t).tracer.Start(t.Context(), "caller")
	defer span.End()
	noMetrics := tracing.WithMeterProvider(metricnoop.NewMeterProvider())
	for name, m := range map[string]*telemetry{
		"noop":              newTelemetry(t, tracing.WithTracerProvider(tracenoop.NewTracerProvider()), noMetrics),
		"forwarding":        newTelemetry(t, tracing.WithTracerProvider(forwarding{tracenoop.NewTracerProvider()}), noMetrics),
		"noop with metrics": newTelemetry(t, tracing.WithTracerProvider(tracenoop.NewTracerProvider())),
	} {
		t.Run(name, func(t *testing.T) {
			local := lockmw.NewLocal(lockmw.WithObserver(m.observer))
			outerCtx, outer := usertest.Lock(t, caller, local, "item:7")
			innerCtx, inner := usertest.Lock(t, outerCtx, local, "user:42")
			for _, ctx := range []context.Context{outerCtx, innerCtx} {
				if got := trace.SpanContextFromContext(ctx); !got.Equal(span.SpanContext()) {
					t.Errorf("the work is in %v, want the caller's span", got)
				}
			}
			usertest.Refused(t, t.Context(), local, "item:7", lockmw.WithWait(0))
			usertest.Unlock(t, inner)
			usertest.Unlock(t, outer)
			m.countersAtZero()
			if strings.Contains(name, "metrics") != (len(m.histogram("distributed_lock.wait.duration")) > 0) {
				t.Error("metrics depend on spans")
			}
		})
	}
}

func TestWorkUnderALockThatIsNotSampledIsNotSampled(t *testing.T) {
	m := newTelemetryWith(t, sdktrace.NeverSample(), tracing.WithMeterProvider(metricnoop.NewMeterProvider()))
	local := lockmw.NewLocal(lockmw.WithObserver(m.observer))
	ctx, hold := usertest.Lock(t, t.Context(), local, "item:7")
	if sc := trace.SpanContextFromContext(ctx); !sc.IsValid() || sc.IsSampled() {
		t.Errorf("the work is in %v, want the hold's unsampled span", sc)
	}
	usertest.Unlock(t, hold)
}

func TestWithoutProvidersTheObserverIsEmpty(t *testing.T) {
	o := tracing.New(tracing.WithTracerProvider(tracenoop.NewTracerProvider()), tracing.WithMeterProvider(metricnoop.NewMeterProvider()))
	if !reflect.ValueOf(*o).IsZero() {
		t.Error("it has callbacks")
	}
}
