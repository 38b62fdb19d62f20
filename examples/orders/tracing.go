package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// spans makes traces, and exports them if there is a collector. Without one, trace ids still tell
// the holders of locks apart.
type spans struct {
	provider *sdktrace.TracerProvider
	stderr   io.Writer
}

func openTracing(ctx context.Context, collector string, stderr io.Writer) (*spans, error) {
	opts := []sdktrace.TracerProviderOption{
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "orders"))),
	}
	if collector != "" {
		exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpoint(collector), otlptracegrpc.WithInsecure())
		if err != nil {
			return nil, fmt.Errorf("spans to %s: %w", collector, err)
		}
		opts = append(opts, sdktrace.WithBatcher(exporter, sdktrace.WithMaxQueueSize(1<<16))) // a burst makes many
	}
	var once sync.Once
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		once.Do(func() { _, _ = fmt.Fprintf(stderr, "orders: spans to %s: %v\n", collector, err) })
	}))
	return &spans{provider: sdktrace.NewTracerProvider(opts...), stderr: stderr}, nil
}

func (s *spans) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := s.provider.Shutdown(ctx); err != nil {
		otel.Handle(err)
	}
}

// spanOf reads a stored traceparent; the zero SpanContext if it is none.
func spanOf(traceparent string) trace.SpanContext {
	carrier := propagation.MapCarrier{"traceparent": traceparent}
	ctx := propagation.TraceContext{}.Extract(context.Background(), carrier)
	return trace.SpanContextFromContext(ctx)
}
