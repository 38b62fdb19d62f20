package tracing

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmw/go/internal/observe"
	"github.com/lockmw/go/lockmw"
)

// An attempt is one call for a lock and its hold. As a context it contains the acquire span while the call waits, and the hold
// span afterwards. The spans are siblings, and contexts can only be nested, so the attempt switches between two contexts.
type attempt struct {
	observe.Attempt[tracer, attempt] // its context contains the acquire span

	labels *labels
	caller context.Context

	shows atomic.Bool     // shown is set
	shown context.Context // replaces the context of Attempt

	mu        sync.Mutex // guards the following fields, and orders the callbacks
	prepared  bool
	contended bool
	counted   bool // as a waiter
	position  int
	renewals  int64
	key       string

	holderLabel string
	extra       []attribute.KeyValue
	links       []trace.SpanContext
	acquire     trace.Span
	acquireCtx  context.Context
	acquireEnd  time.Time // zero if the acquire span is not recorded
	granted     time.Time
	hold        trace.Span
	holdCtx     context.Context
	holdStart   time.Time
}

// attemptIn returns the innermost attempt of t in ctx, or nil if there is none.
func (t *tracer) attemptIn(ctx context.Context) *attempt { return observe.In[attempt](ctx, t) }

// Value implements context.Context.
func (s *attempt) Value(key any) any {
	if s.shows.Load() && key != any(s.Observer()) {
		return s.shown.Value(key)
	}
	return s.Attempt.Value(key)
}

// show makes s use the values of ctx, which include the caller's.
func (s *attempt) show(ctx context.Context) {
	s.shown = ctx
	s.shows.Store(true)
}

// lockIn locks s, which may be nil, if it is in phase p.
func (s *attempt) lockIn(p observe.Phase) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	if !s.Is(p) {
		s.mu.Unlock()
		return false
	}
	return true
}

// startHold starts the hold span after the acquire span.
func (s *attempt) startHold(a *lockmw.Attempt) {
	s.holdStart = s.granted
	switch {
	case !s.acquireEnd.IsZero():
		// Jaeger's critical path drops a span that starts before the previous one ends.
		s.holdStart = s.acquireEnd.Add(time.Microsecond)
		b := buffers.Get().(*buffer)
		b.start[0] = trace.WithTimestamp(s.holdStart)
		s.holdCtx, s.hold = s.Observer().tracer.Start(s.caller, s.labels.hold, b.start[:]...)
		b.free()
	case isOwn(s.caller, s.acquire):
		s.holdCtx, s.hold = s.Observer().tracer.Start(s.caller, s.labels.hold)
	default: // the hold span would not be a new one either
		s.holdCtx, s.hold = s.acquireCtx, s.acquire
		return
	}
	s.prepare(s.hold, a)
	s.show(s.holdCtx)
}

// isOwn reports whether span, which was started in ctx, is a new one. Providers that do nothing return the span of ctx, or one
// with the same span context.
func isOwn(ctx context.Context, span trace.Span) bool {
	if span.IsRecording() {
		return true
	}
	sc := span.SpanContext()
	return sc.IsValid() && !sameSpan(sc, trace.SpanContextFromContext(ctx))
}

// prepare calls the functions of the user's options for a: only once, and only if span is recorded.
func (s *attempt) prepare(span trace.Span, a *lockmw.Attempt) {
	if s.prepared || !span.IsRecording() {
		return
	}
	s.prepared = true
	s.key = clean(s.Observer().shownKey(a.Key))
	s.extra = s.Observer().extra(s.caller, *a)
	for i, attr := range s.extra {
		if cleaned, changed := cleanAttribute(attr); changed {
			s.extra = slices.Clone(s.extra) // the slice belongs to the user
			s.extra[i] = cleaned
		}
	}
}

// link records the label of a holder, and adds links to the acquire spans of the holders.
func (s *attempt) link(holders []lockmw.Holder) {
	for i := 0; i < len(holders) && s.holderLabel == ""; i++ {
		s.holderLabel = clean(holders[i].Label)
	}
	if !s.Observer().holderLinks || !s.acquire.IsRecording() {
		return
	}
	self := s.acquire.SpanContext()
	for i := 0; i < len(holders) && len(s.links) < maxLinks; i++ {
		sc := spanContextOf(holders[i].TraceParent)
		if !sc.IsValid() || !sc.IsSampled() || sameSpan(sc, self) || s.linked(sc) {
			continue
		}
		s.links = append(s.links, sc)
		s.acquire.AddLink(trace.Link{SpanContext: sc})
	}
}

// maxLinks limits the links of a span, because a lock may have thousands of readers.
const maxLinks = 8

func (s *attempt) linked(sc trace.SpanContext) bool {
	return slices.ContainsFunc(s.links, func(l trace.SpanContext) bool { return sameSpan(l, sc) })
}

func sameSpan(a, b trace.SpanContext) bool {
	return a.SpanID() == b.SpanID() && a.TraceID() == b.TraceID()
}

// traceParentOf returns the traceparent to store with a lock, or "" without a span.
func traceParentOf(sc trace.SpanContext) string {
	return observe.TraceParent{
		TraceID: sc.TraceID(), SpanID: sc.SpanID(), Flags: byte(sc.TraceFlags()),
	}.String()
}

// spanContextOf returns the span context of the traceparent that is stored with a lock. It is not valid if there is no
// traceparent.
func spanContextOf(traceParent string) trace.SpanContext {
	p, _ := observe.ParseTraceParent(traceParent)
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: p.TraceID, SpanID: p.SpanID, TraceFlags: trace.TraceFlags(p.Flags), Remote: true,
	})
}
