package main

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

	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/tracing"
)

const service = "orders"

// telemetry is where spans and metrics go. Without a collector spans go nowhere, but their trace ids
// still tell the holders of locks apart.
type telemetry struct {
	tracer    *sdktrace.TracerProvider
	meter     metric.MeterProvider // nil without -otlp and -metrics
	shutdowns []func(context.Context)
}

func openTelemetry(ctx context.Context, c config, stderr io.Writer) (_ *telemetry, err error) {
	t := &telemetry{}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	// The host's name says that requests and tasks have the same clock: a task that begins after the end of
	// its request is none of a host whose clock is wrong.
	self, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", service)), resource.WithHost())
	if err != nil {
		return nil, err
	}
	spans := []sdktrace.TracerProviderOption{sdktrace.WithResource(self)}
	metrics := []sdkmetric.Option{sdkmetric.WithResource(self)}
	if c.metrics != "" {
		page, err := openMetricsPage(ctx, c.metrics)
		if err != nil {
			return nil, fmt.Errorf("-metrics: %w", err)
		}
		t.shutdowns = append(t.shutdowns, page.shutdown)
		metrics = append(metrics, sdkmetric.WithReader(page.reader))
		_, _ = fmt.Fprintf(stderr, "metrics at %s\n", page.url)
	}
	if c.otlp != "" {
		export, err := openOTLP(ctx, c.otlp, stderr)
		if err != nil {
			return nil, fmt.Errorf("-otlp: %w", err)
		}
		t.shutdowns = append(t.shutdowns, export.shutdown)
		spans = append(spans, sdktrace.WithSpanProcessor(export.spans))
		metrics = append(metrics, sdkmetric.WithReader(export.metrics))
	}
	t.tracer = sdktrace.NewTracerProvider(spans...)
	if c.otlp != "" || c.metrics != "" {
		t.meter = sdkmetric.NewMeterProvider(metrics...)
	}
	return t, nil
}

// observer tells of locks.
func (t *telemetry) observer() *lockmw.Observer {
	opts := []tracing.Option{tracing.WithTracerProvider(t.tracer)}
	if t.meter != nil {
		opts = append(opts, tracing.WithMeterProvider(t.meter))
	}
	return tracing.New(opts...)
}

// close sends what is left. A collector that does not answer gets a few seconds.
func (t *telemetry) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for _, shutdown := range t.shutdowns {
		wg.Go(func() { shutdown(ctx) })
	}
	wg.Wait()
}
