package telemetry

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// A scriptedExporter exports as its function does.
type scriptedExporter struct {
	sdkmetric.Exporter
	export func(context.Context) error
}

func (e scriptedExporter) Export(ctx context.Context, _ *metricdata.ResourceMetrics) error {
	return e.export(ctx)
}

func (scriptedExporter) Temporality(k sdkmetric.InstrumentKind) metricdata.Temporality {
	return sdkmetric.DefaultTemporalitySelector(k)
}

func (scriptedExporter) Aggregation(k sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.DefaultAggregationSelector(k)
}

func (scriptedExporter) Shutdown(context.Context) error { return nil }

// exportUntil has metrics exported again and again until ready is closed, shuts down, and returns what was reported.
func exportUntil(t *testing.T, ready <-chan struct{}, export func(context.Context) error, opts ...sdkmetric.PeriodicReaderOption) string {
	t.Helper()
	var stderr bytes.Buffer
	o := &otlpExport{addr: "collector:4317", stderr: &stderr}
	opts = append(opts, sdkmetric.WithInterval(time.Millisecond))
	o.metrics = sdkmetric.NewPeriodicReader(metricSender{scriptedExporter{export: export}, o}, opts...)
	_ = sdkmetric.NewMeterProvider(sdkmetric.WithReader(o.metrics))
	<-ready
	o.report(o.metrics.Shutdown(t.Context()))
	return stderr.String()
}

func TestAnExportThatTheShutdownRepeatsIsNoFailure(t *testing.T) {
	started, exports := make(chan struct{}), 0
	reported := exportUntil(t, started, func(ctx context.Context) error {
		if exports++; exports > 1 {
			return nil
		}
		close(started)
		<-ctx.Done()
		return ctx.Err()
	})
	if exports != 2 || reported != "" {
		t.Errorf("%d exports, want 2; reported %q, want nothing", exports, reported)
	}
}

func TestOneFailureOfManyIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		fail func(context.Context) error
		opts []sdkmetric.PeriodicReaderOption
	}{
		"an error": {fail: func(context.Context) error { return errors.New("disk full") }},
		"a timeout": {
			fail: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
			opts: []sdkmetric.PeriodicReaderOption{sdkmetric.WithTimeout(time.Millisecond)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			third, exports := make(chan struct{}), 0
			reported := exportUntil(t, third, func(ctx context.Context) error {
				if exports++; exports == 3 {
					close(third)
				}
				return c.fail(ctx)
			}, c.opts...)
			if strings.Count(reported, "\n") != 1 || !strings.HasPrefix(reported, "orders: spans and metrics to collector:4317: ") {
				t.Errorf("reported %q, want one line", reported)
			}
		})
	}
}
