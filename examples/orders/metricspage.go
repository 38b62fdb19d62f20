package main

import (
	"context"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// A metricsPage is where Prometheus reads the metrics.
type metricsPage struct {
	reader   sdkmetric.Reader
	url      string
	shutdown func(context.Context)
}

func openMetricsPage(ctx context.Context, addr string) (*metricsPage, error) {
	registry := prometheus.NewRegistry()
	reader, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo())
	if err != nil {
		return nil, err
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	// Exemplars, which lead from a bucket to a trace, exist in the OpenMetrics format only.
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	stop := serveHTTP(listener, mux)
	return &metricsPage{
		reader:   reader,
		url:      "http://" + reachable(listener.Addr()) + "/metrics",
		shutdown: func(ctx context.Context) { _ = stop(ctx) },
	}, nil
}
