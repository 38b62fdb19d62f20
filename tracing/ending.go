package tracing

import (
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmw/go/internal/observe"
	"github.com/lockmw/go/lockmw"
)

// endWait ends the acquire span and reports the wait.
func (s *attempt) endWait(a *lockmw.Attempt, o observe.Outcome, err error, now time.Time) {
	t := s.Observer()
	if s.counted {
		t.waiters.Add(s.acquireCtx, -1, s.labels.level...)
	}
	t.wait.Record(s.acquireCtx, now.Sub(s.Started).Seconds(), s.labels.record[o]...)
	if !s.acquire.IsRecording() {
		s.acquire.End()
		return
	}
	b := buffers.Get().(*buffer)
	s.describe(b, a, o, err)
	b.add(attrContended.Bool(s.contended))
	if s.position > 0 {
		b.add(attrPosition.Int(s.position))
	}
	if len(s.links) > 0 {
		b.add(attrHolderTrace.String(s.links[0].TraceID().String()))
		b.add(attrHolderSpan.String(s.links[0].SpanID().String()))
	}
	if s.holderLabel != "" {
		b.add(attrHolderLabel.String(s.holderLabel))
	}
	s.setStatus(s.acquire, err)
	s.acquire.SetAttributes(b.attrs...)
	s.acquire.End()
	b.free()
	s.acquireEnd = endOf(s.acquire)
}

// endOf returns the end time of a span that has just ended. The SDK's spans have it; setting it would cost an allocation.
func endOf(span trace.Span) time.Time {
	if s, ok := span.(interface{ EndTime() time.Time }); ok {
		return s.EndTime()
	}
	return time.Now()
}

// endHold ends the hold span and reports the hold. r is nil if the hold was lost.
func (s *attempt) endHold(a *lockmw.Attempt, o observe.Outcome, err error, r *lockmw.Release) {
	t, now := s.Observer(), time.Now()
	s.Enter(observe.Over)
	t.held.Add(s.holdCtx, -1, s.labels.level...)
	t.hold.Record(s.holdCtx, now.Sub(s.granted).Seconds(), s.labels.record[o]...)
	if !s.hold.IsRecording() {
		s.hold.End()
		return
	}
	b := buffers.Get().(*buffer)
	s.describe(b, a, o, err)
	if s.renewals > 0 { // each attribute costs the SDK time
		b.add(attrRenewals.Int64(s.renewals))
	}
	if r != nil {
		b.add(attrWaitersReleased.Int(r.Waiters))
	}
	s.setStatus(s.hold, err)
	s.hold.SetAttributes(b.attrs...)
	if now.Before(s.holdStart) { // the start was set up to 1 µs late
		s.hold.End(trace.WithTimestamp(s.holdStart))
	} else {
		s.hold.End()
	}
	b.free()
}

// describe adds the attributes that both spans have. The user's attributes come first, because the later of two attributes with
// the same key counts.
func (s *attempt) describe(b *buffer, a *lockmw.Attempt, o observe.Outcome, err error) {
	b.add(s.extra...)
	b.add(s.labels.span...)
	if s.key != "" {
		b.add(attrKey.String(s.key))
	}
	if a.Policy.Label != "" {
		b.add(attrLabel.String(a.Policy.Label))
	}
	b.add(attrLease.Float64(a.Policy.Lease.Seconds()), attrOutcome.String(o.String()))
	if s.Token != 0 {
		b.add(attrToken.Int64(s.Token))
	}
	if err != nil {
		b.add(attrErrorType.String(observe.ErrorType(err)))
	}
}

// setStatus sets the status Error for failures.
func (s *attempt) setStatus(span trace.Span, err error) {
	if !observe.IsFailure(err) {
		return
	}
	text := observe.ErrorType(err) // only the type if keys are redacted
	if s.Observer().quoteErrors {
		text = clean(observe.Reason(err).Error())
	}
	span.SetStatus(codes.Error, text)
}

// A buffer holds arguments of calls to a span. Without it they would be allocated for each call, because the compiler must assume
// that the methods of an interface keep them. No span does.
type buffer struct {
	attrs []attribute.KeyValue
	start [1]trace.SpanStartOption
}

var buffers = sync.Pool{New: func() any { return &buffer{attrs: make([]attribute.KeyValue, 0, 24)} }}

func (b *buffer) add(attrs ...attribute.KeyValue) { b.attrs = append(b.attrs, attrs...) }

func (b *buffer) free() {
	clear(b.attrs)
	b.attrs = b.attrs[:0]
	b.start[0] = nil
	buffers.Put(b)
}
