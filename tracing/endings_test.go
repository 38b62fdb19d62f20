package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func TestFailedAttempts(t *testing.T) {
	for _, tt := range []struct {
		name      string
		err       error
		waited    time.Duration
		op        string
		outcome   string
		errorType string
		status    codes.Code
	}{
		{"busy", lockmw.ErrBusy, 0, "try_lock", "not_acquired", "lock_not_acquired", codes.Unset},
		{"timeout", lockmw.ErrBusy, time.Second, "lock", "timeout", "lock_timeout", codes.Error},
		{"deadlock", lockmw.ErrDeadlock, time.Second, "lock", "deadlock", "lock_deadlock", codes.Error},
		{"canceled", fmt.Errorf("%w: %w", lockmw.ErrBusy, context.Canceled), 0, "lock", "canceled", "lock_canceled", codes.Error},
		{"too many", lockmw.ErrTooManyWaiters, 0, "lock", "not_acquired", "lock_too_many_waiters", codes.Error},
		{"unavailable", lockmw.ErrUnavailable, 0, "lock", "error", "lock_unavailable", codes.Error},
		{"closed", lockmw.ErrClosed, 0, "lock", "canceled", "lock_closed", codes.Error},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newTelemetry(t)
			a := lockmw.Attempt{Key: "item:7", Name: "item", Op: tt.op, Mode: "exclusive"}
			m.observer.Failed(m.observer.Start(t.Context(), a), a,
				&lockmw.Error{Op: tt.op, Key: a.Key, Waited: tt.waited, Err: tt.err})

			s := m.span("acquire_lock item")
			attrs := attributesOf(s)
			if got := attrs["distributed_lock.outcome"]; got != tt.outcome {
				t.Errorf("outcome is %v, want %v", got, tt.outcome)
			}
			if got := attrs["error.type"]; got != tt.errorType {
				t.Errorf("error.type is %v, want %v", got, tt.errorType)
			}
			if s.Status().Code != tt.status {
				t.Errorf("status is %v, want %v", s.Status(), tt.status)
			}
			if s.Status().Code == codes.Error {
				mustNotContain(t, "the status", s.Status().Description, a.Key)
			}
			if points := m.histogram("distributed_lock.wait.duration", outcome(tt.outcome)); len(points) != 1 || points[0].Count != 1 {
				t.Errorf("wait.duration has %v", points)
			}
			m.allEnded()
		})
	}
}

func TestALossEndsTheHoldSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTelemetry(t)
		local := lockmw.NewLocal(lockmw.WithObserver(m.observer))
		ctx, hold := usertest.Lock(t, t.Context(), local, "item:7")
		time.Sleep(3 * time.Second)
		local.Expire("item:7")
		<-ctx.Done()
		s := m.span("hold_lock item")
		m.countersAtZero()
		time.Sleep(4 * time.Second)
		if err := hold.Unlock(); !errors.Is(err, lockmw.ErrLost) {
			t.Fatal(err)
		}

		if got := s.EndTime().Sub(s.StartTime()); got != 3*time.Second-time.Microsecond {
			t.Errorf("the span lasts %v, want until the loss", got)
		}
		if s.Status().Code != codes.Error {
			t.Errorf("status is %v, want Error", s.Status())
		}
		attrs := attributesOf(s)
		if attrs["distributed_lock.outcome"] != "lost" || attrs["error.type"] != "lock_lost" {
			t.Errorf("attributes: %v", attrs)
		}
		if points := m.histogram("distributed_lock.hold.duration"); len(points) != 1 ||
			!has(points[0].Attributes, []attribute.KeyValue{outcome("lost")}) || points[0].Sum != 3 {
			t.Errorf("hold.duration: %+v", points)
		}
		m.allEnded()
		m.countersAtZero()
	})
}

// A script is an observer's way through an attempt by hand, and what it reported.
type script struct {
	*telemetry
	*usertest.Script
}

func newScript(m *telemetry) *script { return newScriptIn(context.Background(), m) }

func newScriptIn(caller context.Context, m *telemetry) *script {
	return &script{telemetry: m, Script: usertest.NewScript(caller, m.observer)}
}

func (s *script) acquire(g lockmw.Acquisition) *script {
	s.Acquired(g)
	return s
}

// run is a wait, a hold, a renewal and a call of package idempotency: what all metrics count.
func (s *script) run() {
	s.Contended(lockmw.Contention{})
	s.acquire(lockmw.Acquisition{Contended: true})
	s.Renewed(nil)
	s.Released(lockmw.Release{})
	s.Idempotent(lockmw.IdempotentCall{Outcome: "kept"})
}

func TestEndingsThatOnlyTheReleaseTells(t *testing.T) {
	for kind, tt := range map[string]struct {
		err     error
		outcome string
	}{
		"lock_lost":        {fmt.Errorf("%w: its lease ran out", lockmw.ErrLost), "lost"},
		"lock_closed":      {lockmw.ErrClosed, "lost"},
		"lock_unavailable": {fmt.Errorf("%w: i/o timeout", lockmw.ErrUnavailable), "error"},
	} {
		t.Run(kind, func(t *testing.T) {
			s := newScript(newTelemetry(t)).acquire(lockmw.Acquisition{})
			s.Released(lockmw.Release{Err: tt.err})
			s.Lost(tt.err)
			span := s.span("hold_lock item")
			attrs := attributesOf(span)
			if attrs["distributed_lock.outcome"] != tt.outcome || attrs["error.type"] != kind || span.Status().Code != codes.Error {
				t.Errorf("status %v, attributes %v", span.Status(), attrs)
			}
			s.allEnded()
			s.countersAtZero()
		})
	}
}

func TestErrorsAreMadeValidUTF8(t *testing.T) {
	s := newScript(newTelemetry(t))
	s.Failed(&lockmw.Error{Err: fmt.Errorf("%w: LOADING \xff", lockmw.ErrUnavailable)})
	want := lockmw.ErrUnavailable.Error() + ": LOADING \uFFFD"
	if got := s.span("acquire_lock item").Status().Description; got != want {
		t.Errorf("the status is %q, want %q", got, want)
	}
}

func TestAWaitIsCountedOnceAndOnlyIfItWasReported(t *testing.T) {
	for calls := range 3 {
		s := newScript(newTelemetry(t))
		for range calls {
			s.Contended(lockmw.Contention{})
		}
		if got := s.sum("distributed_lock.waiters"); got != int64(min(calls, 1)) {
			t.Errorf("%d waiters after %d calls of Contended", got, calls)
		}
		s.acquire(lockmw.Acquisition{Contended: true})
		s.Contended(lockmw.Contention{})
		if attributesOf(s.span("acquire_lock item"))["distributed_lock.contended"] != true {
			t.Error("the span does not say that the lock was contended")
		}
		s.Released(lockmw.Release{})
		s.countersAtZero()
	}
}

func TestFailingOpenHasNoHoldSpan(t *testing.T) {
	s := newScript(newTelemetry(t)).acquire(lockmw.Acquisition{FailedOpen: &lockmw.Error{Op: "lock", Err: lockmw.ErrUnavailable}})
	if sc := trace.SpanContextFromContext(s.Ctx); sc.IsValid() {
		t.Error("the guarded work nests in a span that has ended")
	}
	s.Released(lockmw.Release{})
	span := s.span("acquire_lock item")
	if span.Status().Code != codes.Error || attributesOf(span)["distributed_lock.outcome"] != "error" {
		t.Errorf("status %v, attributes %v", span.Status(), attributesOf(span))
	}
	if len(s.spans.Started()) != 1 {
		t.Error("a lock that is not held has a hold span")
	}
	s.countersAtZero()
}

func TestRenewalsAreCounted(t *testing.T) {
	s := newScript(newTelemetry(t)).acquire(lockmw.Acquisition{})
	for _, err := range []error{nil, nil, lockmw.ErrUnavailable, nil, lockmw.ErrLost} {
		s.Renewed(err)
	}
	s.Released(lockmw.Release{})
	s.Renewed(nil)
	if got := attributesOf(s.span("hold_lock item"))["distributed_lock.renewals"]; got != int64(3) {
		t.Errorf("%v renewals on the span, want 3", got)
	}
	for o, want := range map[string]int64{"renewed": 3, "error": 1} {
		if got := s.sum("distributed_lock.renewals", outcome(o)); got != want {
			t.Errorf("%d renewals with outcome %s, want %d", got, o, want)
		}
	}
}

func TestWorkThatPanicsEndsItsSpans(t *testing.T) {
	m := newTelemetry(t)
	local := lockmw.NewLocal(lockmw.WithObserver(m.observer))
	func() {
		defer func() { _ = recover() }()
		_ = lockmw.Do(t.Context(), local, "item:7", func(context.Context) error { panic("no stock") })
	}()
	if s := m.span("hold_lock item"); s.Status().Code != codes.Unset {
		t.Errorf("the work's panic fails the lock's span: %v", s.Status())
	}
	m.allEnded()
	m.countersAtZero()
}
