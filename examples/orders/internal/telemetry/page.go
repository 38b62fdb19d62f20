package telemetry

import (
	"context"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/lockmw/go/examples/internal/web"
)

// A page serves the metrics for Prometheus.
type page struct {
	reader   sdkmetric.Reader
	url      string
	shutdown func(context.Context)
}

func openPage(ctx context.Context, addr string) (*page, error) {
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
	// Only the OpenMetrics format has exemplars, which link a bucket to a trace.
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	stop := web.Serve(listener, mux)
	return &page{
		reader:   reader,
		url:      "http://" + web.Host(listener.Addr()) + "/metrics",
		shutdown: func(ctx context.Context) { _ = stop(ctx) },
	}, nil
}
