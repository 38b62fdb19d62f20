package tracing_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"

	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/tracing"
)

const broken = "caf\xe9"

func TestAttributesThatAreNotUTF8DoNotReachAnExporter(t *testing.T) {
	theirs := []attribute.KeyValue{
		attribute.Int("n", 7), attribute.String("shop", broken), attribute.StringSlice("shops", []string{"a", broken}), attribute.String(broken, "x"),
		attribute.Slice("list", attribute.IntValue(1), attribute.StringValue(broken)),
		attribute.Map("map", attribute.String("inner", broken), attribute.String(broken, "x")),
	}
	m := newTelemetry(t, tracing.WithSpanAttributes(func(context.Context, lockmw.Attempt) []attribute.KeyValue { return theirs }))
	_, hold := usertest.Lock(t, t.Context(), lockmw.NewLocal(lockmw.WithObserver(m.observer)), "item:7")
	usertest.Unlock(t, hold)
	for _, span := range m.spans.Ended() {
		attrs := attributesOf(span)
		want := map[attribute.Key]any{
			"n": int64(7), "shop": "caf\uFFFD", "shops": []string{"a", "caf\uFFFD"}, "caf\uFFFD": "x",
			"list": []attribute.Value{attribute.IntValue(1), attribute.StringValue("caf\uFFFD")},
			"map":  []attribute.KeyValue{attribute.String("caf\uFFFD", "x"), attribute.String("inner", "caf\uFFFD")},
		}
		for key, value := range want {
			if got := attrs[key]; !reflect.DeepEqual(got, value) {
				t.Errorf("%s: %s is %q, want %q", span.Name(), key, got, value)
			}
		}
		if text := fmt.Sprint(attrs); !utf8.ValidString(text) {
			t.Errorf("%s: %q", span.Name(), text)
		}
	}
	if theirs[1].Value.AsString() != broken {
		t.Error("the user's own attributes were changed")
	}
}

func TestCommonAttributesThatAreNotUTF8AreRefused(t *testing.T) {
	for name, a := range map[string]attribute.KeyValue{
		"key": attribute.String(broken, "x"), "string": attribute.String("k", broken),
		"strings": attribute.StringSlice("k", []string{"a", broken}), "list": attribute.Slice("k", attribute.StringValue(broken)),
		"map": attribute.Map("k", attribute.String("inner", broken)), "key of a map": attribute.Map("k", attribute.String(broken, "x")),
	} {
		t.Run(name, func(t *testing.T) {
			usertest.WantPanic(t, "tracing: ", "WithAttributes", func() { tracing.New(tracing.WithAttributes(a)) })
		})
	}
}

func TestTheValueOfARedactorsPanicIsNotReported(t *testing.T) {
	errs := ignoreErrors(t)
	m := newTelemetry(t, tracing.WithKeyRedactor(func(key string) string { panic("cannot redact " + key) }))
	_, hold := usertest.Lock(t, t.Context(), lockmw.NewLocal(lockmw.WithObserver(m.observer)), "item:secret")
	usertest.Unlock(t, hold)
	if len(*errs) == 0 {
		t.Error("the panic is not reported")
	}
	for _, err := range *errs {
		if !strings.Contains(err.Error(), "WithKeyRedactor") || strings.Contains(err.Error(), "secret") {
			t.Errorf("reported: %v", err)
		}
	}
	for _, span := range m.spans.Ended() {
		if key, ok := attributesOf(span)["distributed_lock.key"]; ok {
			t.Errorf("%s shows the key as %q", span.Name(), key)
		}
	}
}

// An observer that looks something up under a lock of its own, in the context that it was given.
func TestALockThatAnotherObserverTakesHasItsOwnSpans(t *testing.T) {
	m := newTelemetry(t)
	inner := lockmw.NewLocal(lockmw.WithObserver(m.observer))
	other := &lockmw.Observer{Start: func(ctx context.Context, _ lockmw.Attempt) context.Context {
		_, hold := usertest.Lock(t, ctx, inner, "config:1")
		usertest.Unlock(t, hold)
		return ctx
	}}
	local := lockmw.NewLocal(lockmw.WithObserver(m.observer), lockmw.WithObserver(other))
	_, hold := usertest.Lock(t, t.Context(), local, "item:7")
	outer := m.spans.Started()[0].SpanContext()
	usertest.Unlock(t, hold)
	m.allEnded()
	m.countersAtZero()
	for _, name := range []string{"acquire_lock config", "hold_lock config"} {
		if m.span(name).Parent().SpanID() != outer.SpanID() {
			t.Errorf("%s is not within the span of the outer call", name)
		}
	}
	if acquire, within := m.span("acquire_lock item"), m.span("hold_lock config"); acquire.EndTime().Before(within.EndTime()) {
		t.Error("the inner lock ended the outer call's span")
	}
	m.span("hold_lock item")
}
