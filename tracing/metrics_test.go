package tracing_test

import (
	"context"
	"encoding/hex"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func TestCountersReturnToZeroHoweverItEnds(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *lockmw.Local, context.CancelFunc, *lockmw.Hold){
		"release": func(t *testing.T, _ *lockmw.Local, _ context.CancelFunc, h *lockmw.Hold) { usertest.Unlock(t, h) },
		"loss":    func(_ *testing.T, l *lockmw.Local, _ context.CancelFunc, _ *lockmw.Hold) { l.Expire("item:7") },
		"cancel":  func(_ *testing.T, _ *lockmw.Local, cancel context.CancelFunc, _ *lockmw.Hold) { cancel() },
		"timeout": func(*testing.T, *lockmw.Local, context.CancelFunc, *lockmw.Hold) { time.Sleep(2 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newTelemetry(t)
				local := lockmw.NewLocal(lockmw.WithObserver(m.observer))
				_, hold := usertest.Lock(t, t.Context(), local, "item:7")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { _ = recover() }()
					_ = lockmw.Do(ctx, local, "item:7", func(context.Context) error { panic("no stock") }, lockmw.WithWait(2*time.Second))
				}()
				synctest.Wait()
				if waiters, held := m.sum("distributed_lock.waiters"), m.sum("distributed_lock.held"); waiters != 1 || held != 1 {
					t.Fatalf("%d wait and %d hold, want 1 and 1", waiters, held)
				}

				end(t, local, cancel, hold)
				<-done
				if err := hold.Unlock(); err != nil && !errors.Is(err, lockmw.ErrLost) && !errors.Is(err, lockmw.ErrNotHeld) {
					t.Error(err)
				}
				m.countersAtZero()
				m.allEnded()
			})
		})
	}
}

func TestCountersReturnToZeroAfterManyAtOnce(t *testing.T) {
	m := newTelemetry(t)
	local := lockmw.NewLocal(lockmw.WithObserver(m.observer))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				err := lockmw.Do(t.Context(), local, "item:7", func(ctx context.Context) error {
					_, work := m.tracer.Start(ctx, "work")
					work.End()
					return nil
				}, lockmw.WithWait(time.Minute))
				if err != nil && !errors.Is(err, lockmw.ErrLost) {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		for range 100 {
			local.Expire("item:7")
		}
	})
	all.Wait()
	m.allEnded()
	m.countersAtZero()
}

func TestDurations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTelemetry(t)
		local := lockmw.NewLocal(lockmw.WithObserver(m.observer))
		_, hold := usertest.Lock(t, t.Context(), local, "item:7", lockmw.WithName("first"))
		time.AfterFunc(3*time.Second, func() { usertest.Unlock(t, hold) })
		_, second := usertest.Lock(t, t.Context(), local, "item:7", lockmw.WithName("second"))
		time.Sleep(1500 * time.Millisecond)
		usertest.Unlock(t, second)
		synctest.Wait() // for the first Unlock to return

		wait := m.histogram("distributed_lock.wait.duration", attribute.String("distributed_lock.name", "second"))
		if len(wait) != 1 || wait[0].Sum != 3 {
			t.Errorf("wait.duration: %+v", wait)
		}
		held := m.histogram("distributed_lock.hold.duration", attribute.String("distributed_lock.name", "first"))
		if len(held) != 1 || held[0].Sum != 3 {
			t.Errorf("hold.duration: %+v", held)
		}
		waited := m.histogram("distributed_lock.hold.duration", attribute.String("distributed_lock.name", "second"))
		if len(waited) != 1 || waited[0].Sum != 1.5 {
			t.Errorf("hold.duration after a wait: %+v, want 1.5", waited)
		}
		want := map[attribute.Key]any{
			"distributed_lock.name": "first", "distributed_lock.mode": "exclusive", "distributed_lock.outcome": "released",
		}
		if got := asMap(held[0].Attributes.ToSlice()); !reflect.DeepEqual(got, want) {
			t.Errorf("attributes of hold.duration: %v, want %v", got, want)
		}
	})
}

func TestDefaultBuckets(t *testing.T) {
	m := newTelemetry(t)
	local := lockmw.NewLocal(lockmw.WithObserver(m.observer))
	_, hold := usertest.Lock(t, t.Context(), local, "item:7")
	usertest.Unlock(t, hold)
	want := []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	if got := m.histogram("distributed_lock.wait.duration")[0].Bounds; !reflect.DeepEqual(got, want) {
		t.Errorf("wait.duration: %v", got)
	}
	if got := m.histogram("distributed_lock.hold.duration")[0].Bounds; !reflect.DeepEqual(got, append(want, 120, 300)) {
		t.Errorf("hold.duration: %v", got)
	}
}

func TestExemplarsLeadToTheLocksSpans(t *testing.T) {
	m := newTelemetry(t)
	caller, span := m.tracer.Start(t.Context(), "caller")
	newScriptIn(caller, m).run()
	span.End()
	for metric, span := range map[string]sdktrace.ReadOnlySpan{
		"distributed_lock.wait.duration": m.span("acquire_lock item"),
		"distributed_lock.waiters":       m.span("acquire_lock item"),
		"distributed_lock.hold.duration": m.span("hold_lock item"),
		"distributed_lock.held":          m.span("hold_lock item"),
		"distributed_lock.renewals":      m.span("hold_lock item"),
	} {
		var spans []string
		switch data := m.metric(metric).(type) {
		case metricdata.Histogram[float64]:
			spans = exemplified(data.DataPoints[0].Exemplars)
		case metricdata.Sum[int64]:
			spans = exemplified(data.DataPoints[0].Exemplars)
		}
		if want := []string{span.SpanContext().SpanID().String()}; !slices.Equal(slices.Compact(spans), want) {
			t.Errorf("%s: exemplars are of the spans %v, want %v, which is %q", metric, spans, want, span.Name())
		}
	}
}

func exemplified[N int64 | float64](exemplars []metricdata.Exemplar[N]) (spans []string) {
	for _, e := range exemplars {
		spans = append(spans, hex.EncodeToString(e.SpanID))
	}
	return spans
}
