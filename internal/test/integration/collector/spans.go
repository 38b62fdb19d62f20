package collector

import (
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// Data is everything that has arrived.
type Data struct {
	Spans    []Span
	Points   []Point        // of metrics; cumulative points repeat with each export, see Latest
	Requests []fmt.Stringer // everything as it was sent, to search for text that must not occur
}

// An ID names a span: both parts in lower-case hex digits. The zero ID is none.
type ID struct{ Trace, Span string }

// A Scope is the instrumentation scope of a span or a metric.
type Scope struct{ Name, Version string }

// A Span is one exported span. Values of attributes are string, bool, int64, float64, []byte, []any or
// map[string]any.
type Span struct {
	Resource   map[string]any
	Scope      Scope
	ID         ID
	Parent     ID // zero: a root span
	Name       string
	Kind       string // internal, server, client, producer, consumer or unspecified
	Start, End time.Time
	Attributes map[string]any
	Links      []Link
	Events     []Event
	Status     Status
}

// A Link points from a span to another.
type Link struct {
	ID         ID
	Attributes map[string]any
}

// An Event is a moment in a span.
type Event struct {
	Name       string
	Time       time.Time
	Attributes map[string]any
}

// A Status is how a span ended.
type Status struct {
	Code    string // unset, ok or error
	Message string
}

// Spans converts spans from the form of the protocol.
func Spans(resources []*tracepb.ResourceSpans) []Span {
	var spans []Span
	for _, r := range resources {
		resource := attributes(r.GetResource().GetAttributes())
		for _, s := range r.GetScopeSpans() {
			scope := Scope{s.GetScope().GetName(), s.GetScope().GetVersion()}
			for _, p := range s.GetSpans() {
				spans = append(spans, span(resource, scope, p))
			}
		}
	}
	return spans
}

func span(resource map[string]any, scope Scope, p *tracepb.Span) Span {
	s := Span{
		Resource: resource, Scope: scope,
		ID:         id(p.GetTraceId(), p.GetSpanId()),
		Name:       p.GetName(),
		Kind:       enum(p.GetKind().String(), "SPAN_KIND_"),
		Start:      moment(p.GetStartTimeUnixNano()),
		End:        moment(p.GetEndTimeUnixNano()),
		Attributes: attributes(p.GetAttributes()),
		Status: Status{
			Code:    enum(p.GetStatus().GetCode().String(), "STATUS_CODE_"),
			Message: p.GetStatus().GetMessage(),
		},
	}
	if parent := p.GetParentSpanId(); len(parent) > 0 {
		s.Parent = id(p.GetTraceId(), parent)
	}
	for _, l := range p.GetLinks() {
		s.Links = append(s.Links, Link{
			ID: id(l.GetTraceId(), l.GetSpanId()), Attributes: attributes(l.GetAttributes()),
		})
	}
	for _, e := range p.GetEvents() {
		s.Events = append(s.Events, Event{
			Name: e.GetName(), Time: moment(e.GetTimeUnixNano()), Attributes: attributes(e.GetAttributes()),
		})
	}
	return s
}

func id(trace, span []byte) ID { return ID{hex.EncodeToString(trace), hex.EncodeToString(span)} }

func enum(value, prefix string) string { return strings.ToLower(strings.TrimPrefix(value, prefix)) }

func moment(nanoseconds uint64) time.Time { return time.Unix(0, int64(nanoseconds)).UTC() }

func attributes(list []*commonpb.KeyValue) map[string]any {
	m := make(map[string]any, len(list))
	for _, a := range list {
		m[a.GetKey()] = value(a.GetValue())
	}
	return m
}

func value(v *commonpb.AnyValue) any {
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return v.StringValue
	case *commonpb.AnyValue_BoolValue:
		return v.BoolValue
	case *commonpb.AnyValue_IntValue:
		return v.IntValue
	case *commonpb.AnyValue_DoubleValue:
		return v.DoubleValue
	case *commonpb.AnyValue_BytesValue:
		return v.BytesValue
	case *commonpb.AnyValue_ArrayValue:
		list := make([]any, 0, len(v.ArrayValue.GetValues()))
		for _, e := range v.ArrayValue.GetValues() {
			list = append(list, value(e))
		}
		return list
	case *commonpb.AnyValue_KvlistValue:
		return attributes(v.KvlistValue.GetValues())
	}
	return nil
}
