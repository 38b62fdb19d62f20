package main

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// A fakeCollector keeps what it is sent: spans by their id, and the last metrics.
type fakeCollector struct {
	addr   string
	server *grpc.Server
	done   chan error

	mu      sync.Mutex
	spans   map[string]*tracepb.Span
	metrics []*metricspb.ResourceMetrics
	onSpans func() // called with what it is sent first
}

type (
	spanService struct {
		collectortrace.UnimplementedTraceServiceServer
		*fakeCollector
	}
	metricService struct {
		collectormetrics.UnimplementedMetricsServiceServer
		*fakeCollector
	}
)

func (c spanService) Export(_ context.Context, req *collectortrace.ExportTraceServiceRequest) (*collectortrace.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.onSpans != nil && len(c.spans) == 0 {
		c.onSpans()
	}
	for _, resource := range req.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				c.spans[string(span.GetSpanId())] = span
			}
		}
	}
	return &collectortrace.ExportTraceServiceResponse{}, nil
}

func (c metricService) Export(_ context.Context, req *collectormetrics.ExportMetricsServiceRequest) (*collectormetrics.ExportMetricsServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.metrics = req.GetResourceMetrics()
	return &collectormetrics.ExportMetricsServiceResponse{}, nil
}

// listenForSpans starts a collector that, as Jaeger, takes no metrics.
func listenForSpans(t *testing.T) *fakeCollector { return listenForOTLP(t, false) }

// listenForAll starts a collector that takes spans and metrics.
func listenForAll(t *testing.T) *fakeCollector { return listenForOTLP(t, true) }

func listenForOTLP(t *testing.T, metrics bool) *fakeCollector {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &fakeCollector{
		addr:   listener.Addr().String(),
		server: grpc.NewServer(),
		done:   make(chan error, 1),
		spans:  make(map[string]*tracepb.Span),
	}
	collectortrace.RegisterTraceServiceServer(c.server, spanService{fakeCollector: c})
	if metrics {
		collectormetrics.RegisterMetricsServiceServer(c.server, metricService{fakeCollector: c})
	}
	go func() { c.done <- c.server.Serve(listener) }()
	t.Cleanup(func() {
		c.server.Stop()
		if err := <-c.done; err != nil {
			t.Error(err)
		}
	})
	return c
}

// A lockedBuffer is a standard error to which several goroutines write.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
