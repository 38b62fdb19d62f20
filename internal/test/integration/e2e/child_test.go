package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
	"github.com/lockmw/go/tracing"
)

// A childSpec configures a child process, which takes locks by order and exports their spans and metrics.
type childSpec struct {
	Redis   string
	Spans   string // where spans go over OTLP/gRPC
	Metrics string
	Service string // its service.instance.id
	Redact  string // "", "redact" or "hash"
}

// An order makes a child begin a call, cancel it, or unlock its lock.
type order struct {
	Do      string // lock, cancel or unlock
	ID      string // of the call
	Kind    string // plain, fair, read or write
	Name    string // "" for none
	Key     string
	Try     bool          // do not wait
	Wait    time.Duration // 0: forever
	Lease   time.Duration // 0: the default
	MaxHold time.Duration
}

// A report is an event of a call.
type report struct {
	ID    string
	Event string // contended, locked, failed, lost or unlocked
	Trace string // the trace of the call
	Error string
}

// run obeys orders until there are no more and all calls have ended. Then it exports the rest.
func (s childSpec) run(orders *json.Decoder, reports *json.Encoder) (err error) {
	ctx := context.Background()
	spans, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpoint(s.Spans), otlptracegrpc.WithInsecure())
	if err != nil {
		return err
	}
	metrics, err := otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithEndpoint(s.Metrics), otlpmetricgrpc.WithInsecure())
	if err != nil {
		return err
	}
	self := resource.NewSchemaless(attribute.String("service.name", "e2e"), attribute.String("service.instance.id", s.Service))
	tracers := sdktrace.NewTracerProvider(sdktrace.WithResource(self), sdktrace.WithBatcher(spans))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithResource(self),
		sdkmetric.WithReader(sdkmetric.NewPeriodicReader(metrics, sdkmetric.WithInterval(time.Hour)))) // only at the end
	defer func() { err = errors.Join(err, tracers.Shutdown(ctx), meters.Shutdown(ctx)) }()

	opts := []tracing.Option{tracing.WithTracerProvider(tracers), tracing.WithMeterProvider(meters)}
	switch s.Redact {
	case "redact":
		opts = append(opts, tracing.WithKeyRedactor(tracing.RedactKey))
	case "hash":
		opts = append(opts, tracing.WithKeyRedactor(tracing.HashKey([]byte("of the test"))))
	}
	rdb := redis.NewClient(&redis.Options{Addr: s.Redis})
	defer rdb.Close()
	locks, err := lockmw.New(rdb, lockmw.WithObserver(tracing.New(opts...)), lockmw.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	defer locks.Close()
	c := &caller{
		tracer: tracers.Tracer("test"), out: reports,
		lockers: map[string]lockmw.Locker{
			"plain": locks, "fair": fairlock.New(locks), "write": rwlock.New(locks), "read": rwlock.New(locks).RLocker(),
		},
	}
	return c.obey(orders)
}

// A caller makes calls.
type caller struct {
	tracer  trace.Tracer
	lockers map[string]lockmw.Locker

	mu  sync.Mutex // guards out
	out *json.Encoder
}

func (c *caller) obey(orders *json.Decoder) error {
	var all sync.WaitGroup
	defer all.Wait()
	unlocks, cancels := make(map[string]func()), make(map[string]func())
	for {
		var o order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		switch o.Do {
		case "unlock":
			unlocks[o.ID]()
		case "cancel":
			cancels[o.ID]()
		case "lock":
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel() // ends a hold that no order has unlocked
			unlock := make(chan struct{})
			unlocks[o.ID], cancels[o.ID] = sync.OnceFunc(func() { close(unlock) }), cancel
			all.Go(func() { c.call(ctx, o, unlock) })
		}
	}
}

func (c *caller) report(ctx context.Context, id, event string, err error) {
	r := report{ID: id, Event: event, Trace: trace.SpanContextFromContext(ctx).TraceID().String()}
	if err != nil {
		r.Error = err.Error()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.out.Encode(r) // fails if the test has ended
}

// call makes a call in its own trace.
func (c *caller) call(ctx context.Context, o order, unlock <-chan struct{}) {
	root, span := c.tracer.Start(ctx, "call "+o.ID)
	hold, err := c.lock(root, o, unlock)
	if err == nil {
		err = hold.Unlock()
	}
	span.End()
	if hold != nil {
		c.report(root, o.ID, "unlocked", err)
	} else {
		c.report(root, o.ID, "failed", err)
	}
}

// lock takes the lock, and returns when it has to be unlocked.
func (c *caller) lock(root context.Context, o order, unlock <-chan struct{}) (*lockmw.Hold, error) {
	opts := []lockmw.Option{lockmw.WithObserver(&lockmw.Observer{
		Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { c.report(root, o.ID, "contended", nil) },
	})}
	if o.Name != "" {
		opts = append(opts, lockmw.WithName(o.Name))
	}
	if o.Wait > 0 || o.Try {
		opts = append(opts, lockmw.WithWait(o.Wait))
	}
	if o.Lease > 0 {
		opts = append(opts, lockmw.WithLease(o.Lease))
	}
	if o.MaxHold > 0 {
		opts = append(opts, lockmw.WithMaxHold(o.MaxHold))
	}
	ctx, hold, err := c.lockers[o.Kind].Lock(root, o.Key, opts...)
	if err != nil {
		return nil, err
	}
	_, work := c.tracer.Start(ctx, "work")
	defer work.End()
	c.report(root, o.ID, "locked", nil)
	select {
	case <-unlock:
	case <-ctx.Done():
		c.report(root, o.ID, "lost", context.Cause(ctx))
	}
	return hold, nil
}

// A child is a child process from the view of a test. It is not safe for concurrent use.
type child struct {
	*redistest.Child
	t    *testing.T
	spec childSpec
	seen []report
}

// startChild starts a child.
func startChild(t *testing.T, spec childSpec) *child {
	t.Helper()
	return &child{Child: redistest.StartChild(t, spec), t: t, spec: spec}
}

// await waits for an event of the call. Any other end of the call ends the test.
func (c *child) await(ctx context.Context, id, event string) report {
	c.t.Helper()
	for i := 0; ; i++ {
		if i == len(c.seen) {
			c.seen = append(c.seen, c.next(ctx, id, event))
		}
		switch r := c.seen[i]; {
		case r.ID != id:
		case r.Event == event:
			return r
		case r.Event == "failed" || r.Event == "unlocked":
			c.t.Fatalf("%s: call %s: %s (%s), want %s", c.spec.Service, id, r.Event, r.Error, event)
		}
	}
}

func (c *child) next(ctx context.Context, id, event string) (r report) {
	c.t.Helper()
	select {
	case raw, ok := <-c.Reports():
		if !ok {
			c.t.Fatalf("%s has ended (%v) before call %s: %s", c.spec.Service, c.Err(), id, event)
		}
		if err := json.Unmarshal(raw, &r); err != nil {
			c.t.Fatalf("%s: unreadable report: %s", c.spec.Service, raw)
		}
	case <-ctx.Done():
		c.t.Fatalf("%s: %s is not %s: %v", c.spec.Service, id, event, context.Cause(ctx))
	}
	return r
}
