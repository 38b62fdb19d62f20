package tracing

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

type instruments struct {
	wait, hold    metric.Float64Histogram
	waiters, held metric.Int64UpDownCounter
	renewals      metric.Int64Counter
	calls         metric.Int64Counter
}

// waitBuckets are in seconds. A view of the program's MeterProvider replaces them.
var waitBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

func newInstruments(m metric.Meter) instruments {
	wait, waitErr := m.Float64Histogram(metricWait, metric.WithUnit("s"),
		metric.WithDescription("How long calls for a lock took, until the grant or the failure."),
		metric.WithExplicitBucketBoundaries(waitBuckets...))
	hold, holdErr := m.Float64Histogram(metricHold, metric.WithUnit("s"),
		metric.WithDescription("How long locks were held."),
		metric.WithExplicitBucketBoundaries(append(slices.Clip(waitBuckets), 120, 300)...))
	waiters, waitersErr := m.Int64UpDownCounter(metricWaiters, metric.WithUnit("{waiter}"),
		metric.WithDescription("Calls that are waiting for a lock."))
	held, heldErr := m.Int64UpDownCounter(metricHeld, metric.WithUnit("{lock}"),
		metric.WithDescription("Locks that are held."))
	renewals, renewalsErr := m.Int64Counter(metricRenewals, metric.WithUnit("{renewal}"),
		metric.WithDescription("Renewals of leases, by how they ended."))
	calls, callsErr := m.Int64Counter(metricCalls, metric.WithUnit("{call}"),
		metric.WithDescription("Calls of package idempotency, by how they ended."))
	return instruments{
		wait:     usable[metric.Float64Histogram](wait, waitErr, noop.Float64Histogram{}),
		hold:     usable[metric.Float64Histogram](hold, holdErr, noop.Float64Histogram{}),
		waiters:  usable[metric.Int64UpDownCounter](waiters, waitersErr, noop.Int64UpDownCounter{}),
		held:     usable[metric.Int64UpDownCounter](held, heldErr, noop.Int64UpDownCounter{}),
		renewals: usable[metric.Int64Counter](renewals, renewalsErr, noop.Int64Counter{}),
		calls:    usable[metric.Int64Counter](calls, callsErr, noop.Int64Counter{}),
	}
}

// enabled reports whether any instrument for locks is enabled.
func (i *instruments) enabled(ctx context.Context) bool {
	return i.wait.Enabled(ctx) || i.hold.Enabled(ctx) || i.waiters.Enabled(ctx) || i.held.Enabled(ctx) ||
		i.renewals.Enabled(ctx)
}

// usable returns instrument. If err is not nil it reports err and returns otherwise, because locks must work without metrics.
func usable[T any](instrument T, err error, otherwise T) T {
	if err != nil {
		otel.Handle(err)
		return otherwise
	}
	return instrument
}
