package main

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"github.com/lockmw/go/internal/collector"
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
