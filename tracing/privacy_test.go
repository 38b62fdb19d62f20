package tracing_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/lockmw/go/internal/test/exhibit"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/tracing"
)

// A disclosure is where text that may have come from a key was exported, by what it is part of.
type disclosure struct {
	mu    sync.Mutex
	texts map[string][]string
}

func (d *disclosure) add(where string, texts ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.texts == nil {
		d.texts = make(map[string][]string)
	}
	d.texts[where] = append(d.texts[where], texts...)
}

func (d *disclosure) attributes(where string, attrs []attribute.KeyValue) {
	for _, a := range attrs {
		place := where
		if a.Key == "distributed_lock.key" {
			place += " distributed_lock.key"
		}
		d.add(place, string(a.Key), a.Value.String())
	}
}

// in lists the places where text was exported.
func (d *disclosure) in(text string) (places []string) {
	for where, texts := range d.texts {
		if slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, text) }) {
			places = append(places, where)
		}
	}
	slices.Sort(places)
	return places
}

func (d *disclosure) span(s tracetest.SpanStub) {
	d.add("name", s.Name)
	d.add("status", s.Status.Description)
	d.add("tracestate", s.SpanContext.TraceState().String(), s.Parent.TraceState().String())
	d.add("scope", fmt.Sprint(s.InstrumentationScope))
	d.attributes("resource", s.Resource.Attributes())
	d.attributes("span", s.Attributes)
	for _, e := range s.Events {
		d.add("event", e.Name)
		d.attributes("event", e.Attributes)
	}
	for _, l := range s.Links {
		d.add("link", l.SpanContext.TraceState().String())
		d.attributes("link", l.Attributes)
	}
}

func (d *disclosure) metric(m metricdata.Metrics) (exemplars int) {
	d.add("metric", m.Name, m.Description, m.Unit)
	switch data := m.Data.(type) {
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			d.attributes("metric", p.Attributes.ToSlice())
			exemplars += disclosed(d, p.Exemplars)
		}
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			d.attributes("metric", p.Attributes.ToSlice())
			exemplars += disclosed(d, p.Exemplars)
		}
	}
	return exemplars
}

func disclosed[N int64 | float64](d *disclosure, exemplars []metricdata.Exemplar[N]) (filtered int) {
	for _, e := range exemplars {
		d.attributes("exemplar", e.FilteredAttributes)
		filtered += len(e.FilteredAttributes)
	}
	return filtered
}

// headers reports what requests of the guarded work would carry to other services.
func (d *disclosure) headers() *lockmw.Observer {
	all := propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	return &lockmw.Observer{
		Acquired: func(ctx context.Context, _ lockmw.Attempt, _ lockmw.Acquisition) context.Context {
			carrier := make(propagation.MapCarrier)
			all.Inject(ctx, carrier)
			for k, v := range carrier {
				d.add("headers", k, v)
			}
			return ctx
		},
		Contended: func(_ context.Context, _ lockmw.Attempt, c lockmw.Contention) {
			for _, h := range c.Holders {
				d.add("stored traceparent", h.TraceParent)
			}
		},
	}
}

// discloses returns where the exports of an exhibit contain text.
func discloses(t *testing.T, key, text string, opts ...tracing.Option) []string {
	var d disclosure
	spans, reader := tracetest.NewInMemoryExporter(), sdkmetric.NewManualReader()
	// Attributes that a view drops stay in the exemplars.
	dropAll := sdkmetric.NewView(sdkmetric.Instrument{Name: "*"}, sdkmetric.Stream{AttributeFilter: attribute.NewAllowKeysFilter()})
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithView(dropAll))
	observer := tracing.New(append(opts,
		tracing.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))),
		tracing.WithMeterProvider(meters))...)
	exhibit.Run(t, key, observer, d.headers())

	for _, s := range spans.GetSpans() {
		d.span(s)
	}
	m, exemplars := &telemetry{t: t, reader: reader}, 0
	for _, metric := range m.collect() {
		exemplars += d.metric(metric)
	}
	if exemplars == 0 || len(d.texts["span distributed_lock.key"]) == 0 || len(d.texts["headers"]) == 0 || len(d.texts["stored traceparent"]) == 0 {
		t.Fatalf("not everything was exported: %v", d.texts)
	}
	return d.in(text)
}

func TestKeysAreNowhereButInTheirAttribute(t *testing.T) {
	// The server repeats the key in an error: see exhibit.outage.
	want := []string{"span distributed_lock.key", "status"}
	for _, key := range []string{"user:marker", "marker", "user:marker:tail"} {
		if got := discloses(t, key, "marker"); !slices.Equal(got, want) {
			t.Errorf("key %q: the rest of it is in %q, want %q", key, got, want)
		}
	}
	if got := discloses(t, "marker:42", "marker"); !slices.Contains(got, "name") || !slices.Contains(got, "exemplar") {
		t.Errorf("the kind of a key is only in %q: this test finds nothing", got)
	}
}

func TestARedactedKeyIsNowhere(t *testing.T) {
	for name, redactor := range map[string]func(string) string{
		"RedactKey": tracing.RedactKey, "HashKey": tracing.HashKey([]byte("secret")),
	} {
		for _, key := range []string{"user:marker", "marker"} {
			if got := discloses(t, key, "marker", tracing.WithKeyRedactor(redactor)); len(got) > 0 {
				t.Errorf("%s: the key is in %q", name, got)
			}
		}
	}
}
