package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// newTracer returns a provider that keeps all spans in r. If otlp is an address it also exports them.
func newTracer(ctx context.Context, r *recorder, otlp string) (*sdktrace.TracerProvider, error) {
	opts := []sdktrace.TracerProviderOption{
		sdktrace.WithSyncer(r),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "onekey"))),
	}
	if otlp != "" {
		exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpoint(otlp), otlptracegrpc.WithInsecure(),
			otlptracegrpc.WithTimeout(3*time.Second), otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{}))
		if err != nil {
			return nil, err
		}
		opts = append(opts, sdktrace.WithBatcher(exporter))
	}
	return sdktrace.NewTracerProvider(opts...), nil
}

// A recorder keeps spans in memory.
type recorder struct {
	mu    sync.Mutex
	spans []sdktrace.ReadOnlySpan
}

// ExportSpans implements sdktrace.SpanExporter.
func (r *recorder) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spans = append(r.spans, spans...)
	return nil
}

// Shutdown implements sdktrace.SpanExporter.
func (*recorder) Shutdown(context.Context) error { return nil }

func (r *recorder) find(id trace.SpanID) sdktrace.ReadOnlySpan {
	i := slices.IndexFunc(r.spans, func(s sdktrace.ReadOnlySpan) bool { return s.SpanContext().SpanID() == id })
	if i < 0 {
		return nil
	}
	return r.spans[i]
}

// print prints the trace as a tree, with the holder that each wait links to.
func (r *recorder) print(out io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortStableFunc(r.spans, func(a, b sdktrace.ReadOnlySpan) int { return a.StartTime().Compare(b.StartTime()) })
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, s := range r.spans {
		if !s.Parent().IsValid() {
			_, _ = fmt.Fprintf(table, "\ntrace %v\tfrom\tto\twaited for\n", s.SpanContext().TraceID())
			r.printTree(table, s, s.StartTime(), 0)
		}
	}
	return table.Flush()
}

func (r *recorder) printTree(out io.Writer, s sdktrace.ReadOnlySpan, start time.Time, depth int) {
	ms := func(t time.Time) int64 { return t.Sub(start).Milliseconds() }
	_, _ = fmt.Fprintf(out, "%s%s\t%d ms\t%d ms\t%s\n",
		strings.Repeat("  ", depth), s.Name(), ms(s.StartTime()), ms(s.EndTime()), strings.Join(r.waitedFor(s), ", "))
	for _, child := range r.spans {
		if child.Parent().SpanID() == s.SpanContext().SpanID() {
			r.printTree(out, child, start, depth+1)
		}
	}
}

// waitedFor returns the names of the work for which a call waited. Its span has links to the acquire_lock spans of the holders.
func (r *recorder) waitedFor(s sdktrace.ReadOnlySpan) (names []string) {
	for _, link := range s.Links() {
		for _, work := range r.workUnder(r.find(link.SpanContext.SpanID())) {
			names = append(names, work.Name())
		}
	}
	return names
}

// workUnder returns the work under a lock. It is below the hold_lock span, which has the same parent as the acquire_lock span.
func (r *recorder) workUnder(acquire sdktrace.ReadOnlySpan) (list []sdktrace.ReadOnlySpan) {
	for _, work := range r.spans {
		hold := r.find(work.Parent().SpanID())
		if acquire != nil && hold != nil && hold.Name() == "hold_lock item" && hold.Parent().Equal(acquire.Parent()) && hold.StartTime().After(acquire.EndTime()) {
			list = append(list, work)
		}
	}
	return list
}
