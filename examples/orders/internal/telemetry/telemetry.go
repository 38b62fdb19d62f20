// Package telemetry creates the spans and metrics of the shop and exports them.
package telemetry

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/lockmw/go/examples/orders/internal/settings"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/tracing"
)

// Service is the name of the service in spans and metrics.
const Service = "orders"

// Telemetry has the providers of spans and metrics. Without a collector spans are not exported, but
// each holder of a lock still has a trace id.
type Telemetry struct {
	Tracer    *sdktrace.TracerProvider
	Meter     metric.MeterProvider // nil without -otlp and -metrics
	shutdowns []func(context.Context)
}

// Open opens the exporters of the settings. Failures to export are written to stderr.
func Open(ctx context.Context, c settings.Settings, stderr io.Writer) (_ *Telemetry, err error) {
	t := &Telemetry{}
	defer func() {
		if err != nil {
			t.Close()
		}
	}()
	// The host name shows that requests and tasks share a clock. Otherwise a backend may take a task that begins
	// after its request for the span of a host with a wrong clock.
	self, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", Service)), resource.WithHost())
	if err != nil {
		return nil, err
	}
	spans := []sdktrace.TracerProviderOption{sdktrace.WithResource(self)}
	metrics := []sdkmetric.Option{sdkmetric.WithResource(self)}
	if c.Metrics != "" {
		page, err := openPage(ctx, c.Metrics)
		if err != nil {
			return nil, fmt.Errorf("-metrics: %w", err)
		}
		t.shutdowns = append(t.shutdowns, page.shutdown)
		metrics = append(metrics, sdkmetric.WithReader(page.reader))
		_, _ = fmt.Fprintf(stderr, "metrics at %s\n", page.url)
	}
	if c.OTLP != "" {
		export, err := openOTLP(ctx, c.OTLP, stderr)
		if err != nil {
			return nil, fmt.Errorf("-otlp: %w", err)
		}
		t.shutdowns = append(t.shutdowns, export.shutdown)
		spans = append(spans, sdktrace.WithSpanProcessor(export.spans))
		metrics = append(metrics, sdkmetric.WithReader(export.metrics))
	}
	t.Tracer = sdktrace.NewTracerProvider(spans...)
	if c.OTLP != "" || c.Metrics != "" {
		t.Meter = sdkmetric.NewMeterProvider(metrics...)
	}
	return t, nil
}

// Observer returns the observer that traces and measures locks.
func (t *Telemetry) Observer() *lockmw.Observer {
	opts := []tracing.Option{tracing.WithTracerProvider(t.Tracer)}
	if t.Meter != nil {
		opts = append(opts, tracing.WithMeterProvider(t.Meter))
	}
	return tracing.New(opts...)
}

// Close exports the remaining data. It gives the collector a few seconds.
func (t *Telemetry) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for _, shutdown := range t.shutdowns {
		wg.Go(func() { shutdown(ctx) })
	}
	wg.Wait()
}
