package tracing_test

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/tracing"
)

func TestBothSpansAreChildrenOfTheCallers(t *testing.T) {
	m := newTelemetry(t)
	local := lockmw.NewLocal(lockmw.WithObserver(m.observer))
	callerCtx, caller := m.tracer.Start(t.Context(), "caller")

	ctx, hold := usertest.Lock(t, callerCtx, local, "item:7")
	_, work := m.tracer.Start(ctx, "work")
	work.End()
	usertest.Unlock(t, hold)
	caller.End()

	acquired, held := m.span("acquire_lock item"), m.span("hold_lock item")
	for _, s := range []sdktrace.ReadOnlySpan{acquired, held} {
		if s.Parent().SpanID() != caller.SpanContext().SpanID() {
			t.Errorf("parent of %q is not the caller's span", s.Name())
		}
		if s.SpanKind() != trace.SpanKindInternal {
			t.Errorf("kind of %q is %v, want internal", s.Name(), s.SpanKind())
		}
		if s.Status().Code != codes.Unset {
			t.Errorf("status of %q is %v, want Unset", s.Name(), s.Status())
		}
		if scope := s.InstrumentationScope(); scope.Name != tracing.ScopeName || scope.Version != tracing.Version() {
			t.Errorf("scope is %+v", scope)
		}
	}
	if m.span("work").Parent().SpanID() != held.SpanContext().SpanID() {
		t.Error("the guarded work's span does not nest in hold_lock")
	}
	if gap := held.StartTime().Sub(acquired.EndTime()); gap != time.Microsecond {
		t.Errorf("hold_lock starts %v after the end of acquire_lock, want 1µs", gap)
	}
	m.allEnded()
}

func TestAttributes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTelemetry(t)
		local := lockmw.NewLocal(lockmw.WithObserver(m.observer), lockmw.WithLease(1500*time.Millisecond))
		_, first := usertest.Lock(t, t.Context(), local.RLocker(), "item:7", lockmw.WithName("browse"))
		done := make(chan struct{})
		contended, waits := usertest.OnContended(t)
		go func() {
			defer close(done)
			_, hold := usertest.Lock(t, t.Context(), local, "item:7", contended, lockmw.WithWait(lockmw.Forever))
			usertest.Unlock(t, hold)
		}()
		waits()
		holder := first.Token()
		usertest.Unlock(t, first)
		<-done

		both := map[attribute.Key]any{
			"distributed_lock.operation":      "lock",
			"distributed_lock.key":            "item:7",
			"distributed_lock.lease.duration": 1.5,
		}
		acquire, hold := maps.Clone(both), maps.Clone(both)
		acquire["distributed_lock.outcome"] = "acquired"
		hold["distributed_lock.outcome"] = "released"

		reader := map[attribute.Key]any{
			"distributed_lock.name": "browse", "distributed_lock.mode": "read",
			"distributed_lock.fencing_token": holder,
		}
		wantAttributes(t, m.span("acquire_lock browse"), acquire, reader, map[attribute.Key]any{
			"distributed_lock.contended": false,
		})
		wantAttributes(t, m.span("hold_lock browse"), hold, reader, map[attribute.Key]any{
			"distributed_lock.waiters_at_release": int64(1),
		})

		writer := map[attribute.Key]any{
			"distributed_lock.name": "item", "distributed_lock.mode": "exclusive",
			"distributed_lock.fencing_token": holder + 1,
		}
		blocker := m.span("acquire_lock browse").SpanContext()
		wantAttributes(t, m.span("acquire_lock item"), acquire, writer, map[attribute.Key]any{
			"distributed_lock.contended":       true,
			"distributed_lock.queue.position":  int64(1),
			"distributed_lock.holder.trace_id": blocker.TraceID().String(),
			"distributed_lock.holder.span_id":  blocker.SpanID().String(),
		})
		wantAttributes(t, m.span("hold_lock item"), hold, writer, map[attribute.Key]any{
			"distributed_lock.waiters_at_release": int64(0),
		})
	})
}

func wantAttributes(t *testing.T, s sdktrace.ReadOnlySpan, parts ...map[attribute.Key]any) {
	t.Helper()
	want := make(map[attribute.Key]any)
	for _, p := range parts {
		maps.Copy(want, p)
	}
	if got := attributesOf(s); !reflect.DeepEqual(got, want) {
		t.Errorf("attributes of %q:\n got %v\nwant %v", s.Name(), got, want)
	}
}

func TestNoSpanHasAttributesOfTheOneBefore(t *testing.T) {
	both := map[attribute.Key]any{
		"distributed_lock.name": "item", "distributed_lock.mode": "exclusive", "distributed_lock.operation": "lock",
		"distributed_lock.key": "item:7", "distributed_lock.lease.duration": 0.0,
	}
	for range 4 { // what attributes are collected in is used again
		failed, held := newTelemetry(t), newScript(newTelemetry(t))
		contend(failed, valid)
		held.run()
		wantAttributes(t, failed.span("acquire_lock item"), both, map[attribute.Key]any{
			"distributed_lock.outcome": "timeout", "error.type": "lock_timeout", "distributed_lock.contended": true,
			"distributed_lock.holder.trace_id": valid[3:35], "distributed_lock.holder.span_id": valid[36:52],
		})
		wantAttributes(t, held.span("acquire_lock item"), both, map[attribute.Key]any{
			"distributed_lock.outcome": "acquired", "distributed_lock.contended": true,
		})
		wantAttributes(t, held.span("hold_lock item"), both, map[attribute.Key]any{
			"distributed_lock.outcome": "released", "distributed_lock.renewals": int64(1),
			"distributed_lock.waiters_at_release": int64(0),
		})
		for _, s := range append(failed.spans.Ended(), held.spans.Ended()...) {
			if n := s.DroppedAttributes(); n != 0 {
				t.Errorf("%q: %d attributes were dropped", s.Name(), n)
			}
		}
	}
}

func TestNestedLocksKeepTheirOwnSpans(t *testing.T) {
	m := newTelemetry(t)
	local := lockmw.NewLocal(lockmw.WithObserver(m.observer))
	outerCtx, outer := usertest.Lock(t, t.Context(), local, "user:42")
	innerCtx, inner := usertest.Lock(t, outerCtx, local, "item:7")
	_, again := usertest.Lock(t, innerCtx, local, "user:42") // re-enters
	if _, _, err := local.TryLock(t.Context(), "item:7", lockmw.WithName("other")); !errors.Is(err, lockmw.ErrBusy) {
		t.Fatal(err)
	}
	if len(m.spans.Started()) != 5 {
		t.Errorf("%d spans were started, want 5: re-entry is not observed", len(m.spans.Started()))
	}
	usertest.Unlock(t, again)
	usertest.Unlock(t, inner)
	if _, work := m.tracer.Start(outerCtx, "work"); true {
		work.End()
	}
	m.span("hold_lock item")
	usertest.Unlock(t, outer)

	holdOuter := m.span("hold_lock user").SpanContext().SpanID()
	for _, name := range []string{"acquire_lock item", "hold_lock item", "work"} {
		if m.span(name).Parent().SpanID() != holdOuter {
			t.Errorf("%q is not in hold_lock user", name)
		}
	}
	if attributesOf(m.span("hold_lock item"))["distributed_lock.key"] != "item:7" {
		t.Error("the spans of two locks were confused")
	}
	m.allEnded()
	m.countersAtZero()
}

func TestAnObserverMountedTwiceReportsOnce(t *testing.T) {
	m := newTelemetry(t)
	local := lockmw.NewLocal(lockmw.WithObserver(m.observer))
	_, hold := usertest.Lock(t, t.Context(), local, "item:7", lockmw.WithObserver(m.observer))
	if held := m.sum("distributed_lock.held"); held != 1 {
		t.Errorf("held is %d, want 1", held)
	}
	usertest.Unlock(t, hold)
	if names := m.names(); len(names) != 2 {
		t.Errorf("spans: %v", names)
	}
	m.allEnded()
	m.countersAtZero()
}

type valueKey struct{}

func TestContextsOfOtherObserversAreKept(t *testing.T) {
	m := newTelemetry(t)
	other := &lockmw.Observer{
		Start: func(ctx context.Context, _ lockmw.Attempt) context.Context {
			return context.WithValue(ctx, valueKey{}, "kept")
		},
	}
	local := lockmw.NewLocal(lockmw.WithObserver(m.observer), lockmw.WithObserver(other))
	ctx, cancel := context.WithCancelCause(t.Context())
	ctx, hold := usertest.Lock(t, ctx, local, "item:7")
	defer hold.Unlock()
	if ctx.Value(valueKey{}) != "kept" {
		t.Error("a value of another observer is gone")
	}
	why := errors.New("the client is gone")
	cancel(why)
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), why) {
		t.Errorf("cause is %v, want the caller's", context.Cause(ctx))
	}
}

// A repetition gets its answer without the lock, which is free.
func TestAReplayIsNotContended(t *testing.T) {
	m := newTelemetry(t)
	once := idempotency.New(usertest.Client(t, redistest.Mini(t), lockmw.WithObserver(m.observer)))
	for range 2 {
		_, err := idempotency.Do(t.Context(), once, idempotency.Key{Scope: "user-7", ID: "order-1"}, "tea", idempotency.Refuse,
			func(_ context.Context, in string) (string, error) { return in, nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	spans := m.spans.Ended()
	replay := attributesOf(spans[len(spans)-1])
	if replay["error.type"] != "lock_settled" || replay["distributed_lock.contended"] != false {
		t.Errorf("the span of the replay has %v", replay)
	}
}
