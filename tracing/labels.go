package tracing

import (
	"slices"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/lockmw/go/internal/observe"
	"github.com/lockmw/go/lockmw"
)

// labels contains the span names and attributes of all attempts with one name, operation and mode.
type labels struct {
	acquire, hold string // span names
	span          []attribute.KeyValue

	level  []metric.AddOption
	record [observe.Outcomes][]metric.RecordOption
	count  [observe.Outcomes][]metric.AddOption

	calls map[string][]metric.AddOption // of package idempotency, by outcome
}

type labelKey struct{ name, op, mode string }

// maxLabels limits the memory for names, in case their cardinality is not low.
const maxLabels = 1000

func (t *tracer) labelsOf(a *lockmw.Attempt) *labels {
	key := labelKey{a.Name, a.Op, a.Mode}
	if l, ok := t.labels.Load(key); ok {
		return l.(*labels)
	}
	l := t.newLabels(key)
	if t.labelCount.Load() < maxLabels {
		if _, found := t.labels.LoadOrStore(key, l); !found {
			t.labelCount.Add(1)
		}
	}
	return l
}

func (t *tracer) newLabels(k labelKey) *labels {
	name := attrName.String(clean(k.name))
	if k.op == opIdempotent {
		return newCallLabels(append(slices.Clip(t.attributes), name))
	}
	mode := attrMode.String(k.mode)
	common := append(slices.Clip(t.attributes), name, mode)
	level := metric.WithAttributeSet(attribute.NewSet(slices.Clone(common)...))
	l := &labels{
		acquire: t.nameSpan(spanAcquire, k.name),
		hold:    t.nameSpan(spanHold, k.name),
		span:    append(slices.Clip(common), attrOperation.String(k.op)),
		level:   []metric.AddOption{level},
	}
	for o := range observe.Outcomes {
		set := metric.WithAttributeSet(attribute.NewSet(append(slices.Clip(common), attrOutcome.String(o.String()))...))
		l.record[o] = []metric.RecordOption{set}
		l.count[o] = []metric.AddOption{set}
	}
	return l
}

// opIdempotent is the operation of a call of package idempotency, which has no spans of its own.
const opIdempotent = "idempotent"

func newCallLabels(common []attribute.KeyValue) *labels {
	l := &labels{calls: make(map[string][]metric.AddOption, len(observe.CallOutcomes))}
	for _, o := range observe.CallOutcomes {
		set := attribute.NewSet(append(slices.Clip(common), attrOutcome.String(string(o)))...)
		l.calls[string(o)] = []metric.AddOption{metric.WithAttributeSet(set)}
	}
	return l
}

func defaultSpanName(span, name string) string { return span + " " + name }

// nameSpan calls the function of WithSpanNameFormatter.
func (t *tracer) nameSpan(span, name string) (formatted string) {
	formatted = clean(defaultSpanName(span, name))
	defer reportPanic("WithSpanNameFormatter")
	return clean(t.spanName(span, name))
}

// clean makes s valid UTF-8, because exporters drop a whole batch for one invalid string.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// cleanAttribute is clean for an attribute. It reports whether that changes it.
func cleanAttribute(a attribute.KeyValue) (_ attribute.KeyValue, changed bool) {
	key := clean(string(a.Key))
	value, changed := cleanValue(a.Value)
	return attribute.KeyValue{Key: attribute.Key(key), Value: value}, changed || key != string(a.Key)
}

func cleanValue(v attribute.Value) (_ attribute.Value, changed bool) {
	switch v.Type() {
	case attribute.STRING:
		if s, changed := cleanString(v.AsString()); changed {
			return attribute.StringValue(s), true
		}
	case attribute.STRINGSLICE:
		if list := v.AsStringSlice(); cleanAll(list, cleanString) {
			return attribute.StringSliceValue(list), true
		}
	case attribute.SLICE:
		if list := v.AsSlice(); cleanAll(list, cleanValue) {
			return attribute.SliceValue(list...), true
		}
	case attribute.MAP:
		if list := v.AsMap(); cleanAll(list, cleanAttribute) {
			return attribute.MapValue(list...), true
		}
	}
	return v, false
}

func cleanString(s string) (_ string, changed bool) { return clean(s), !utf8.ValidString(s) }

// cleanAll cleans the elements of a list in place.
func cleanAll[T any](list []T, clean func(T) (T, bool)) (changed bool) {
	for i, v := range list {
		cleaned, ch := clean(v)
		list[i], changed = cleaned, changed || ch
	}
	return changed
}
