package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// An otlpExport sends to an OTLP collector. Failures do not disturb the sale: it reports only the first
// one, and does not retry.
type otlpExport struct {
	addr    string
	spans   sdktrace.SpanProcessor
	metrics *sdkmetric.PeriodicReader

	exporter  sdktrace.SpanExporter
	stderr    io.Writer
	failed    sync.Once
	spansOnly sync.Once
}

const (
	exportTimeout  = 3 * time.Second
	exportInterval = 10 * time.Second // of metrics, which are also exported at the end
)

func openOTLP(ctx context.Context, addr string, stderr io.Writer) (*otlpExport, error) {
	o := &otlpExport{addr: addr, stderr: stderr}
	spans, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpoint(addr), otlptracegrpc.WithInsecure(),
		otlptracegrpc.WithTimeout(exportTimeout), otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{}))
	if err != nil {
		return nil, err
	}
	metrics, err := otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithEndpoint(addr), otlpmetricgrpc.WithInsecure(),
		otlpmetricgrpc.WithTimeout(exportTimeout), otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig{}))
	if err != nil {
		return nil, errors.Join(err, spans.Shutdown(ctx))
	}
	o.exporter = spans
	o.spans = sdktrace.NewBatchSpanProcessor(spanSender{spans, o}, sdktrace.WithMaxQueueSize(1<<16)) // for bursts of spans
	o.metrics = sdkmetric.NewPeriodicReader(metricSender{metrics, o}, sdkmetric.WithInterval(exportInterval))
	return o, nil
}

func (o *otlpExport) shutdown(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { o.report(o.metrics.Shutdown(ctx)) })
	o.report(o.spans.Shutdown(ctx))
	o.report(o.exporter.Shutdown(ctx)) // stops running exports if ctx has ended
	wg.Wait()
}

func (o *otlpExport) report(err error) {
	if err != nil {
		o.failed.Do(func() {
			text := strings.ReplaceAll(err.Error(), "\n", "; ")
			_, _ = fmt.Fprintf(o.stderr, "orders: spans and metrics to %s: %s\n", o.addr, text)
		})
	}
}

type spanSender struct {
	sdktrace.SpanExporter
	to *otlpExport
}

func (s spanSender) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	s.to.report(s.SpanExporter.ExportSpans(ctx, spans))
	return nil
}

type metricSender struct {
	sdkmetric.Exporter
	to *otlpExport
}

func (s metricSender) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	err := s.Exporter.Export(ctx, m)
	if status.Code(err) == codes.Unimplemented { // such as Jaeger
		s.to.spansOnly.Do(func() {
			_, _ = fmt.Fprintf(s.to.stderr, "orders: %s accepts spans, but no metrics\n", s.to.addr)
		})
		return nil
	}
	if !errors.Is(context.Cause(ctx), context.Canceled) { // cancelled by the shutdown, which exports once more
		s.to.report(err)
	}
	return nil
}
