package integration_test

import (
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/tracing"
)

func TestAMissingCollectorDelaysNoLock(t *testing.T) {
	const nobody = "127.0.0.1:1" // tests are never given this port
	exporter, err := otlptracegrpc.New(t.Context(),
		otlptracegrpc.WithEndpoint(nobody), otlptracegrpc.WithInsecure(),
		otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{}))
	if err != nil {
		t.Fatal(err)
	}
	var failed atomic.Int64
	before := otel.GetErrorHandler()
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) { failed.Add(1) }))
	t.Cleanup(func() { otel.SetErrorHandler(before) })

	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter))
	local := lockmw.NewLocal(lockmw.WithObserver(tracing.New(tracing.WithTracerProvider(provider))))
	for range 2 * sdktrace.DefaultMaxQueueSize { // more than a batch processor queues spans for
		_, hold := usertest.Lock(t, t.Context(), local, "item:7")
		usertest.Unlock(t, hold)
	}
	if err := provider.Shutdown(t.Context()); err == nil && failed.Load() == 0 {
		t.Error("the spans were exported")
	}
}
