package collector

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmw/go/internal/test/leak"
)

func TestMain(m *testing.M) { leak.VerifyMain(m.Run) }

var shop = resource.NewSchemaless(attribute.String("service.name", "shop"))

func started(t *testing.T) *Collector {
	t.Helper()
	c, err := Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

// tracer returns a provider that exports each span to c when it ends.
func tracer(t *testing.T, c *Collector, opts ...otlptracegrpc.Option) *sdktrace.TracerProvider {
	t.Helper()
	opts = append(opts, otlptracegrpc.WithEndpoint(c.Addr()), otlptracegrpc.WithInsecure())
	exporter, err := otlptracegrpc.New(t.Context(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	p := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter), sdktrace.WithResource(shop))
	t.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	return p
}

func idOf(sc trace.SpanContext) ID { return ID{sc.TraceID().String(), sc.SpanID().String()} }

func TestSpansArriveComplete(t *testing.T) {
	for _, compression := range []string{"none", "gzip"} {
		t.Run(compression, func(t *testing.T) {
			c := started(t)
			var opts []otlptracegrpc.Option
			if compression == "gzip" {
				opts = append(opts, otlptracegrpc.WithCompressor("gzip"))
			}
			tr := tracer(t, c, opts...).Tracer("test", trace.WithInstrumentationVersion("v7"))
			start := time.Unix(1700000000, 123456789).UTC()
			ctx, parent := tr.Start(t.Context(), "parent", trace.WithTimestamp(start))
			_, child := tr.Start(ctx, "child", trace.WithTimestamp(start.Add(1)), trace.WithSpanKind(trace.SpanKindConsumer),
				trace.WithLinks(trace.Link{SpanContext: parent.SpanContext(), Attributes: []attribute.KeyValue{attribute.Bool("near", true)}}),
				trace.WithAttributes(
					attribute.String("s", "x"), attribute.Bool("b", true), attribute.Int("i", -5),
					attribute.Float64("f", 1.5), attribute.StringSlice("l", []string{"x", "y"})))
			child.AddEvent("hit", trace.WithTimestamp(start.Add(2)), trace.WithAttributes(attribute.Int("n", 1)))
			child.SetStatus(codes.Error, "failed")
			child.End(trace.WithTimestamp(start.Add(3)))
			parent.End(trace.WithTimestamp(start.Add(4)))

			data, err := c.Wait(t.Context(), func(d Data) bool { return len(d.Spans) == 2 })
			if err != nil {
				t.Fatal(err)
			}
			common := Span{
				Resource: map[string]any{"service.name": "shop"}, Scope: Scope{"test", "v7"},
				Attributes: map[string]any{}, Kind: "internal", Status: Status{Code: "unset"},
			}
			first, second := common, common
			first.ID, first.Parent = idOf(child.SpanContext()), idOf(parent.SpanContext())
			first.Name, first.Kind = "child", "consumer"
			first.Start, first.End = start.Add(1), start.Add(3)
			first.Attributes = map[string]any{"s": "x", "b": true, "i": int64(-5), "f": 1.5, "l": []any{"x", "y"}}
			first.Links = []Link{{ID: idOf(parent.SpanContext()), Attributes: map[string]any{"near": true}}}
			first.Events = []Event{{Name: "hit", Time: start.Add(2), Attributes: map[string]any{"n": int64(1)}}}
			first.Status = Status{Code: "error", Message: "failed"}
			second.ID, second.Name = idOf(parent.SpanContext()), "parent"
			second.Start, second.End = start, start.Add(4)
			if want := []Span{first, second}; !reflect.DeepEqual(data.Spans, want) {
				t.Errorf("got  %+v\nwant %+v", data.Spans, want)
			}
			if len(data.Requests) != 2 || !strings.Contains(data.Requests[0].String(), `"failed"`) {
				t.Errorf("requests are %v", data.Requests)
			}
		})
	}
}

func TestMetricsArriveComplete(t *testing.T) {
	c := started(t)
	exporter, err := otlpmetricgrpc.New(t.Context(), otlpmetricgrpc.WithEndpoint(c.Addr()), otlpmetricgrpc.WithInsecure())
	if err != nil {
		t.Fatal(err)
	}
	p := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(exporter)), sdkmetric.WithResource(shop))
	defer func() { _ = p.Shutdown(context.Background()) }()
	ctx, span := tracer(t, c).Tracer("test").Start(t.Context(), "span")
	meter := p.Meter("test", metric.WithInstrumentationVersion("v7"))
	held, err1 := meter.Int64UpDownCounter("held", metric.WithUnit("{lock}"), metric.WithDescription("Held."))
	calls, err2 := meter.Float64Counter("calls")
	level, err3 := meter.Int64Gauge("level")
	wait, err4 := meter.Float64Histogram("wait", metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(1, 5))
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	here := metric.WithAttributes(attribute.String("at", "here"))
	held.Add(ctx, 3, here)
	calls.Add(t.Context(), 1.5)
	level.Record(t.Context(), 7)
	wait.Record(ctx, 2)
	if err := p.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	held.Add(t.Context(), -3, here)
	if err := p.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}

	points := c.Data().Points
	if len(points) != 8 {
		t.Fatalf("%d points, want 4 of each export: %+v", len(points), points)
	}
	common := Point{Resource: map[string]any{"service.name": "shop"}, Scope: Scope{"test", "v7"}, Attributes: map[string]any{}}
	want := map[string]Point{"held": common, "calls": common, "level": common, "wait": common}
	for name, p := range want {
		p.Metric = name
		switch name {
		case "held":
			p.Kind, p.Cumulative, p.Unit, p.Description = "sum", true, "{lock}", "Held."
			p.Attributes, p.Value = map[string]any{"at": "here"}, 3
			p.Exemplars = []Exemplar{{Value: 3, Attributes: map[string]any{}}}
		case "calls":
			p.Kind, p.Cumulative, p.Monotonic, p.Value = "sum", true, true, 1.5
		case "level":
			p.Kind, p.Value = "gauge", 7
		case "wait":
			p.Kind, p.Cumulative, p.Unit, p.Value, p.Count = "histogram", true, "s", 2, 1
			p.Bounds, p.Buckets = []float64{1, 5}, []uint64{0, 1, 0}
			p.Exemplars = []Exemplar{{Value: 2, Attributes: map[string]any{}}}
		}
		want[name] = p
	}
	for _, p := range points[:4] {
		if p.Start.IsZero() || p.Start.After(p.Time) {
			t.Errorf("%s: from %v to %v", p.Metric, p.Start, p.Time)
		}
		p.Start, p.Time = time.Time{}, time.Time{}
		for i, e := range p.Exemplars {
			if e.ID != idOf(span.SpanContext()) || e.Time.IsZero() {
				t.Errorf("%s: exemplar %+v, want one of %v", p.Metric, e, span.SpanContext())
			}
			p.Exemplars[i].ID, p.Exemplars[i].Time = ID{}, time.Time{}
		}
		if !reflect.DeepEqual(p, want[p.Metric]) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", p.Metric, p, want[p.Metric])
		}
	}

	latest := make(map[string]float64)
	for _, p := range Latest(points) {
		latest[p.Metric] = p.Value
	}
	if want := map[string]float64{"held": 0, "calls": 1.5, "level": 7, "wait": 2}; !reflect.DeepEqual(latest, want) {
		t.Errorf("the latest values are %v, want %v", latest, want)
	}
}

func TestWaitEndsOnArrival(t *testing.T) {
	c := started(t)
	checked, arrived := make(chan struct{}, 10), make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	go func() {
		_, err := c.Wait(ctx, func(d Data) bool {
			checked <- struct{}{}
			return len(d.Spans) > 0
		})
		arrived <- err
	}()
	<-checked
	_, span := tracer(t, c).Tracer("test").Start(t.Context(), "span")
	span.End()
	if err := <-arrived; err != nil {
		t.Error(err)
	}
}

func TestWaitEndsWithItsContextOrTheCollector(t *testing.T) {
	c := started(t)
	never := func(Data) bool { return false }
	cause := errors.New("too late")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := c.Wait(ctx, never); !errors.Is(err, cause) {
		t.Errorf("after the context: %v, want %v", err, cause)
	}
	c.Stop()
	if _, err := c.Wait(t.Context(), never); !errors.Is(err, ErrStopped) {
		t.Errorf("after Stop: %v, want %v", err, ErrStopped)
	}
	c.Stop() // a second call does no harm
}
