package main

import (
	"context"
	"testing"

	"github.com/lockmw/go/internal/test/integration/collector"
)

// listen starts a collector with one of its Start functions.
func listen(t *testing.T, start func(context.Context) (*collector.Collector, error)) *collector.Collector {
	t.Helper()
	c, err := start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}
