package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

func TestASaleExportsItsSpansAndMetrics(t *testing.T) {
	t.Parallel()
	c := listenForAll(t)
	stderr := &scraper{t: t}
	figures(t, stderr, append(smallSale, "-otlp", c.addr, "-metrics", "127.0.0.1:0")...)
	if lines := complaints(&stderr.lockedBuffer); len(lines) > 0 {
		t.Errorf("stderr has %q", lines)
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
	checkTasksHaveARequest(t, c.spans)
	checkMetrics(t, c.metrics)
	checkPage(t, stderr.page, `distributed_lock_waiters{distributed_lock_mode="exclusive",distributed_lock_name="item"} 0`)
}

// checkTasksHaveARequest asks that a task's spans belong to the trace of the request that enqueued it.
func checkTasksHaveARequest(t *testing.T, spans map[string]*tracepb.Span) {
	t.Helper()
	tasks := 0
	for _, span := range spans {
		if span.GetKind() != tracepb.Span_SPAN_KIND_CONSUMER {
			continue
		}
		tasks++
		if parent := spans[string(span.GetParentSpanId())]; parent.GetName() != "hold_lock user" {
			t.Errorf("the parent of a task's span is %q, want that of the hold in which it was enqueued", parent.GetName())
		}
	}
	if tasks == 0 {
		t.Error("no span of a task")
	}
}

func checkMetrics(t *testing.T, metrics []*metricspb.ResourceMetrics) {
	t.Helper()
	var names []string
	for _, resource := range metrics {
		for _, scope := range resource.GetScopeMetrics() {
			for _, metric := range scope.GetMetrics() {
				names = append(names, metric.GetName())
			}
		}
		checkNoKeys(t, resource.String())
	}
	for _, want := range []string{
		"distributed_lock.wait.duration", "distributed_lock.hold.duration",
		"distributed_lock.waiters", "distributed_lock.held", "http.server.request.duration",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("metrics are %q, want %s too", names, want)
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

// complaints are the lines of a standard error that are not about progress.
func complaints(stderr *lockedBuffer) (lines []string) {
	for line := range strings.Lines(stderr.String()) {
		if strings.HasPrefix(line, "orders: ") {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestACollectorThatDiesChangesNothing(t *testing.T) {
	t.Parallel()
	c := listenForAll(t)
	c.onSpans = func() { go c.server.Stop() }
	var stderr lockedBuffer
	_, locked := figures(t, &stderr, append(smallSale, "-otlp", c.addr)...)
	checkLocked(t, locked)
	if lines := complaints(&stderr); len(lines) != 1 || !strings.Contains(lines[0], c.addr) {
		t.Errorf("stderr has %q, want one line about %s", lines, c.addr)
	}
}

func TestACollectorThatIsNotThereChangesNothing(t *testing.T) {
	t.Parallel()
	var stdout bytes.Buffer
	var stderr lockedBuffer
	if code := run(t.Context(), []string{"-contend", "-otlp", nobody}, &stdout, &stderr); code != exitOK {
		t.Errorf("exit status %d, want %d\n%s", code, exitOK, &stdout)
	}
	if line := stderr.String(); strings.Count(line, "\n") != 1 || !strings.HasPrefix(line, "orders: ") || !strings.Contains(line, nobody) {
		t.Errorf("stderr is %q, want one line about %s", line, nobody)
	}
}
