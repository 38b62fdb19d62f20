// Package collector receives spans and metrics over OTLP/gRPC and keeps them in memory, for tests and
// tools.
//
//	c, err := collector.Start(ctx)
//	…
//	defer c.Stop()
//	run(c.Addr()) // exports there, without TLS
//	data, err := c.Wait(ctx, func(d collector.Data) bool { return len(d.Spans) == 4 })
//
// What can go wrong: exporters send in batches, so spans may be missing until their provider was flushed or shut down. Nothing
// is ever dropped, so a long run needs much memory.
package collector

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // exporters may compress
)

// A Collector is a server that keeps everything that it receives. It is safe for concurrent use.
type Collector struct {
	addr   string
	server *grpc.Server
	served chan struct{} // closed when the server has stopped

	mu   sync.Mutex
	data Data
	more chan struct{} // closed, and replaced, when something arrives
}

// Start starts a Collector on a free port of the local host. ctx only bounds the start.
func Start(ctx context.Context) (*Collector, error) { return start(ctx, true) }

// StartForSpans starts a Collector that accepts no metrics, like Jaeger: exports of them fail with codes.Unimplemented.
func StartForSpans(ctx context.Context) (*Collector, error) { return start(ctx, false) }

func start(ctx context.Context, takesMetrics bool) (*Collector, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("collector: %w", err)
	}
	c := &Collector{
		addr: listener.Addr().String(), server: grpc.NewServer(),
		served: make(chan struct{}), more: make(chan struct{}),
	}
	tracepb.RegisterTraceServiceServer(c.server, traces{c: c})
	if takesMetrics {
		metricspb.RegisterMetricsServiceServer(c.server, metrics{c: c})
	}
	go func() {
		defer close(c.served)
		_ = c.server.Serve(listener) // fails when the server is stopped
	}()
	return c, nil
}

// Addr returns the host and port to export to.
func (c *Collector) Addr() string { return c.addr }

// Stop ends the server and its connections. The data so far can still be read.
func (c *Collector) Stop() {
	c.server.Stop()
	<-c.served
}

// Data returns the data so far.
func (c *Collector) Data() Data {
	data, _ := c.snapshot()
	return data
}

// ErrStopped is returned by Wait if the Collector was stopped, so that nothing more can arrive.
var ErrStopped = errors.New("collector: stopped")

// Wait returns the data as soon as enough returns true. It calls enough immediately and after each arrival. With ErrStopped, or
// the cause of ctx's end, it returns the data so far.
func (c *Collector) Wait(ctx context.Context, enough func(Data) bool) (Data, error) {
	for {
		data, more := c.snapshot()
		if enough(data) {
			return data, nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return data, fmt.Errorf("collector: %w", context.Cause(ctx))
		case <-c.served:
			if data, _ = c.snapshot(); enough(data) { // more may have arrived in between
				return data, nil
			}
			return data, ErrStopped
		}
	}
}

func (c *Collector) snapshot() (data Data, more <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Data{
		Spans:    slices.Clip(c.data.Spans), // appends only
		Points:   slices.Clip(c.data.Points),
		Requests: slices.Clip(c.data.Requests),
	}, c.more
}

func (c *Collector) add(d Data) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.data.Spans = append(c.data.Spans, d.Spans...)
	c.data.Points = append(c.data.Points, d.Points...)
	c.data.Requests = append(c.data.Requests, d.Requests...)
	close(c.more)
	c.more = make(chan struct{})
}

// traces is the service that receives spans.
type traces struct {
	tracepb.UnimplementedTraceServiceServer

	c *Collector
}

func (s traces) Export(_ context.Context, req *tracepb.ExportTraceServiceRequest) (*tracepb.ExportTraceServiceResponse, error) {
	s.c.add(Data{Spans: Spans(req.GetResourceSpans()), Requests: []fmt.Stringer{req}})
	return &tracepb.ExportTraceServiceResponse{}, nil
}

// metrics is the service that receives metrics.
type metrics struct {
	metricspb.UnimplementedMetricsServiceServer

	c *Collector
}

func (s metrics) Export(_ context.Context, req *metricspb.ExportMetricsServiceRequest) (*metricspb.ExportMetricsServiceResponse, error) {
	s.c.add(Data{Points: Points(req.GetResourceMetrics()), Requests: []fmt.Stringer{req}})
	return &metricspb.ExportMetricsServiceResponse{}, nil
}
