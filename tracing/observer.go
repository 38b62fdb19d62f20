package tracing

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/observe"
	"github.com/lockmw/go/lockmw"
)

// New returns an observer that reports locks to OpenTelemetry, for lockmw.WithObserver: as an option of lockmw.New for all locks
// of a Client, or of single calls. It may be used any number of times. If both providers are from OpenTelemetry's noop packages,
// it does nothing. New panics if the value of an option is invalid.
func New(opts ...Option) *lockmw.Observer {
	c := newConfig(opts)
	_, noSpans := c.tracerProvider.(tracenoop.TracerProvider)
	_, noMetrics := c.meterProvider.(metricnoop.MeterProvider)
	if noSpans && noMetrics {
		return &lockmw.Observer{}
	}
	t := &tracer{
		config: c,
		spans:  !noSpans,
		tracer: c.tracerProvider.Tracer(ScopeName, trace.WithInstrumentationVersion(Version())),
		instruments: newInstruments(
			c.meterProvider.Meter(ScopeName, metric.WithInstrumentationVersion(Version()))),
	}
	return &lockmw.Observer{
		Start:       t.start,
		TraceParent: t.traceParent,
		Contended:   t.contended,
		Acquired:    t.acquired,
		Failed:      t.failed,
		Renewed:     t.renewed,
		Lost:        t.lost,
		Released:    t.released,
		Idempotent:  t.idempotent,
	}
}

// A tracer implements one observer.
type tracer struct {
	*config
	instruments
	tracer trace.Tracer
	spans  bool // the tracer is not one of the noop package

	labels     sync.Map // *labels by labelKey
	labelCount atomic.Int64
}

func (t *tracer) start(ctx context.Context, a lockmw.Attempt) context.Context {
	outer := t.attemptIn(ctx)
	if outer != nil && outer.Awaits(a.Key) {
		return ctx // the observer is mounted twice, and this is its second callback
	}
	if !t.wants(ctx, a) {
		return t.ignore(ctx, outer)
	}
	l := t.labelsOf(&a)
	acquireCtx, acquire := t.tracer.Start(ctx, l.acquire)
	if !isOwn(ctx, acquire) && !t.enabled(ctx) {
		return t.ignore(ctx, outer)
	}
	s := &attempt{
		labels: l, caller: ctx, acquire: acquire, acquireCtx: acquireCtx,
	}
	s.Init(acquireCtx, t, s, a.Key)
	s.prepare(acquire, &a)
	return s
}

// ignore returns the context of an attempt that is not observed. It hides outer from the callbacks of that attempt.
func (t *tracer) ignore(ctx context.Context, outer *attempt) context.Context {
	if outer == nil {
		return ctx
	}
	s := &attempt{caller: ctx}
	s.Init(ctx, t, s, "")
	s.Enter(observe.Over)
	return s
}

func (t *tracer) traceParent(ctx context.Context) string {
	s := t.attemptIn(ctx)
	if s == nil || s.labels == nil {
		return ""
	}
	return traceParentOf(trace.SpanContextFromContext(s.Context))
}

func (t *tracer) contended(ctx context.Context, _ lockmw.Attempt, c lockmw.Contention) {
	s := t.attemptIn(ctx)
	if !s.lockIn(observe.Waiting) {
		return
	}
	defer s.mu.Unlock()
	if s.counted {
		return
	}
	s.contended, s.counted, s.position = true, true, c.Position
	s.link(c.Holders)
	t.waiters.Add(s.acquireCtx, 1, s.labels.level...)
}

func (t *tracer) acquired(ctx context.Context, a lockmw.Attempt, g lockmw.Acquisition) context.Context {
	s := t.attemptIn(ctx)
	if !s.lockIn(observe.Waiting) {
		return ctx
	}
	defer s.mu.Unlock()
	s.contended = s.contended || g.Contended
	s.Acquire(&g)
	now := time.Now()
	if g.FailedOpen != nil {
		s.Enter(observe.Over)
		s.endWait(&a, observe.Failed, g.FailedOpen, now)
		s.show(s.caller)
		return ctx
	}
	s.granted = now
	s.Enter(observe.Over) // in case a span processor panics
	s.endWait(&a, observe.Acquired, nil, now)
	s.startHold(&a)
	t.held.Add(s.holdCtx, 1, s.labels.level...)
	s.Enter(observe.Holding)
	return ctx
}

func (t *tracer) failed(ctx context.Context, a lockmw.Attempt, err error) {
	s := t.attemptIn(ctx)
	if !s.lockIn(observe.Waiting) {
		return
	}
	defer s.mu.Unlock()
	s.Enter(observe.Over)
	o := observe.OutcomeOf(err)
	_, settled := errors.AsType[*core.SettledError](err)
	s.contended = s.contended || o == observe.NotAcquired && !settled
	if e, ok := errors.AsType[*lockmw.Error](err); ok {
		s.link(e.Holders)
	}
	s.endWait(&a, o, err, time.Now())
}

func (t *tracer) renewed(ctx context.Context, _ lockmw.Attempt, err error) {
	s := t.attemptIn(ctx)
	if core.IsLoss(err) || !s.lockIn(observe.Holding) { // lost reports losses
		return
	}
	defer s.mu.Unlock()
	o := observe.Failed
	if err == nil {
		o = observe.Renewed
		s.renewals++
	}
	t.renewals.Add(s.holdCtx, 1, s.labels.count[o]...)
}

func (t *tracer) lost(ctx context.Context, a lockmw.Attempt, err error) {
	s := t.attemptIn(ctx)
	if !s.lockIn(observe.Holding) {
		return
	}
	defer s.mu.Unlock()
	s.endHold(&a, observe.Lost, err, nil)
}

func (t *tracer) released(ctx context.Context, a lockmw.Attempt, r lockmw.Release) {
	s := t.attemptIn(ctx)
	if !s.lockIn(observe.Holding) {
		return
	}
	defer s.mu.Unlock()
	o := observe.Released
	switch {
	case core.IsLoss(r.Err):
		o = observe.Lost
	case r.Err != nil:
		o = observe.Failed
	}
	s.endHold(&a, o, r.Err, &r)
}

// idempotent adds the outcome of a call of package idempotency to the caller's span, which contains the spans of the call's lock.
func (t *tracer) idempotent(ctx context.Context, a lockmw.Attempt, call lockmw.IdempotentCall) {
	span, counted := trace.SpanFromContext(ctx), t.calls.Enabled(ctx)
	if !span.IsRecording() && !counted || !t.wants(ctx, a) {
		return
	}
	if span.IsRecording() && t.spans {
		b := buffers.Get().(*buffer)
		b.add(attrIdempotentOutcome.String(call.Outcome))
		span.SetAttributes(b.attrs...)
		b.free()
	}
	if counted {
		t.calls.Add(ctx, 1, t.labelsOf(&a).calls[call.Outcome]...)
	}
}

// wants calls the function of WithFilter.
func (t *tracer) wants(ctx context.Context, a lockmw.Attempt) (wanted bool) {
	wanted = true
	defer reportPanic("WithFilter")
	return t.filter(ctx, a)
}

// extra calls the function of WithSpanAttributes.
func (t *tracer) extra(ctx context.Context, a lockmw.Attempt) []attribute.KeyValue {
	defer reportPanic("WithSpanAttributes")
	return t.spanAttributes(ctx, a)
}

// shownKey calls the function of WithKeyRedactor. It does not report the value of a panic, which may contain the key.
func (t *tracer) shownKey(key string) string {
	defer func() {
		if recover() != nil {
			otel.Handle(errors.New("tracing: WithKeyRedactor: the function panicked"))
		}
	}()
	return t.redactKey(key)
}

// reportPanic, when deferred, recovers from a panic in a user's function. Otherwise a span might never end, and counters might
// never return to zero.
func reportPanic(option string) {
	if v := recover(); v != nil {
		otel.Handle(fmt.Errorf("tracing: %s: the function panicked: %v", option, v))
	}
}
