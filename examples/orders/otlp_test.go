package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockmw/go/examples/orders/internal/telemetry"
	"github.com/lockmw/go/internal/test/integration/collector"
	"github.com/lockmw/go/internal/test/usertest"
)

// It is not parallel: next to other sales the collector may be too busy to accept everything in time.
func TestASaleExportsItsSpansAndMetrics(t *testing.T) {
	c := listen(t, collector.Start)
	stderr := &scraper{t: t}
	runSale(t, stderr, append(smallSale, "-otlp", c.Addr(), "-metrics", "127.0.0.1:0")...)
	if lines := complaints(&stderr.Output); len(lines) > 0 {
		t.Errorf("stderr has %q", lines)
	}

	data := c.Data()
	names := make(map[collector.ID]string, len(data.Spans))
	for _, span := range data.Spans {
		names[span.ID] = span.Name
	}
	kinds, linked := make(map[string]int), 0
	for _, span := range data.Spans {
		kind, _, _ := strings.Cut(span.Name, " ")
		kinds[kind]++
		if host, _ := span.Resource["host.name"].(string); host == "" || span.Resource["service.name"] != telemetry.Service {
			t.Errorf("%s is of %v, want the service and its host", span.Name, span.Resource)
		}
		for _, link := range span.Links {
			if holder := names[link.ID]; !strings.HasPrefix(holder, "acquire_lock ") {
				t.Errorf("%s links to %q, want another acquire_lock", span.Name, holder)
			}
			linked++
		}
		// A task belongs to the trace of the request that enqueued it.
		if parent := names[span.Parent]; span.Kind == "consumer" && parent != "hold_lock user" {
			t.Errorf("the parent of a task's span is %q, want that of the hold in which it was enqueued", parent)
		}
	}
	if kinds["POST"] == 0 || kinds["process"] == 0 || kinds["acquire_lock"] == 0 || kinds["hold_lock"] == 0 || linked == 0 {
		t.Errorf("spans %v with %d links; want requests, tasks, waits and holds, and links to holders", kinds, linked)
	}
	checkMetrics(t, data.Points)
	checkPage(t, stderr.page, `distributed_lock_waiters{distributed_lock_mode="exclusive",distributed_lock_name="item"} 0`)
}

func checkMetrics(t *testing.T, points []collector.Point) {
	t.Helper()
	var names []string
	for _, p := range points {
		names = append(names, p.Metric)
		checkNoKeys(t, fmt.Sprint(p))
	}
	for _, want := range []string{
		"distributed_lock.wait.duration", "distributed_lock.hold.duration",
		"distributed_lock.waiters", "distributed_lock.held", "http.server.request.duration",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("metrics are %q, want also %s", slices.Compact(slices.Sorted(slices.Values(names))), want)
		}
	}
}

func checkNoKeys(t *testing.T, metrics string) {
	t.Helper()
	for _, key := range []string{"item-", "item:", "user-", "user:", "ann"} {
		if i := strings.Index(metrics, key); i >= 0 {
			t.Errorf("metrics have a key: … %.60s", metrics[i:])
		}
	}
}

// complaints returns the lines of a standard error that are not progress lines.
func complaints(stderr *usertest.Output) (lines []string) {
	for line := range strings.Lines(stderr.String()) {
		if strings.HasPrefix(line, "orders: ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// It is not parallel: next to other sales Redis may be too busy to answer all requests in time.
func TestADeadCollectorDoesNotAffectTheSale(t *testing.T) {
	c := listen(t, collector.Start)
	go func() {
		defer c.Stop()
		_, _ = c.Wait(t.Context(), func(d collector.Data) bool { return len(d.Spans) > 0 })
	}()
	var stderr usertest.Output
	_, locked := runSale(t, &stderr, append(smallSale, "-otlp", c.Addr())...)
	checkLocked(t, locked)
	if lines := complaints(&stderr); len(lines) != 1 || !strings.Contains(lines[0], c.Addr()) {
		t.Errorf("stderr has %q, want one line about %s", lines, c.Addr())
	}
}

func TestAMissingCollectorDoesNotAffectTheSale(t *testing.T) {
	t.Parallel()
	var stdout bytes.Buffer
	var stderr usertest.Output
	if code := run(t.Context(), []string{"-contend", "-otlp", nobody}, &stdout, &stderr); code != exitOK {
		t.Errorf("exit status %d, want %d\n%s", code, exitOK, &stdout)
	}
	if line := stderr.String(); strings.Count(line, "\n") != 1 || !strings.HasPrefix(line, "orders: ") || !strings.Contains(line, nobody) {
		t.Errorf("stderr is %q, want one line about %s", line, nobody)
	}
}

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
