package main

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// A fakeCollector keeps the spans that it is sent, by their id.
type fakeCollector struct {
	collector.UnimplementedTraceServiceServer

	mu    sync.Mutex
	spans map[string]*tracepb.Span
}

func (c *fakeCollector) Export(_ context.Context, req *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range req.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				c.spans[string(span.GetSpanId())] = span
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func TestExportedWaitsLinkToTheHolder(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &fakeCollector{spans: make(map[string]*tracepb.Span)}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, c)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()

	figures(t, append(smallSale, "-otlp", listener.Addr().String())...)
	server.Stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}

	kinds, linked := make(map[string]int), 0
	for _, span := range c.spans {
		name, _, _ := strings.Cut(span.GetName(), " ")
		kinds[name]++
		for _, link := range span.GetLinks() {
			holder := c.spans[string(link.GetSpanId())]
			if !strings.HasPrefix(holder.GetName(), "acquire_lock ") {
				t.Errorf("%s links to %q, want another acquire_lock", span.GetName(), holder.GetName())
			}
			linked++
		}
	}
	if kinds["POST"] == 0 || kinds["acquire_lock"] == 0 || kinds["hold_lock"] == 0 || linked == 0 {
		t.Errorf("spans %v with %d links; want requests, waits and holds, and links to holders", kinds, linked)
	}
	// A task's spans belong to the trace of the request that enqueued it.
	for _, span := range c.spans {
		if span.GetKind() != tracepb.Span_SPAN_KIND_CONSUMER {
			continue
		}
		parent := c.spans[string(span.GetParentSpanId())]
		if parent.GetKind() != tracepb.Span_SPAN_KIND_SERVER && !strings.HasPrefix(parent.GetName(), "hold_lock") {
			t.Errorf("the parent of a task's span is %q, want the request or what it holds", parent.GetName())
		}
		return
	}
	t.Error("no span of a task")
}
