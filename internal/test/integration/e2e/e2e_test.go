package e2e_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/integration/collector"
	"github.com/lockmw/go/tracing"
)

func patience(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestTracesOfTwoProcesses(t *testing.T) {
	for redact, key := range map[string]func(string) string{
		"":       func(key string) string { return key },
		"redact": tracing.RedactKey,
		"hash":   tracing.HashKey([]byte("of the test")),
	} {
		t.Run(orDefault(redact, "plain keys"), func(t *testing.T) {
			t.Parallel()
			ctx := patience(t)
			c, err := collector.Start(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Stop()
			s := perform(t, ctx, c.Addr(), c.Addr(), redact)
			data, err := c.Wait(ctx, s.complete)
			if err != nil {
				t.Fatalf("%v: %d spans, %d points", err, len(data.Spans), len(data.Points))
			}
			s.checkTraces(data.Spans, key)
			s.checkMetrics(data.Points, data.Spans)
			var text strings.Builder
			for _, r := range data.Requests {
				text.WriteString(r.String())
			}
			s.checkKeys(text.String(), data.Spans)
			if exported := strings.Contains(text.String(), s.marker); exported != (redact == "") {
				t.Errorf("keys are exported: %t", exported)
			}
		})
	}
}

// complete reports whether the spans of all calls, and metrics of both processes, have arrived.
func (s *stage) complete(d collector.Data) bool {
	return len(d.Spans) >= s.spans() && len(collector.Latest(d.Points)) > 0 &&
		d.Points[0].Resource["service.instance.id"] != d.Points[len(d.Points)-1].Resource["service.instance.id"]
}

// spans returns how many spans are expected.
func (s *stage) spans() (total int) {
	for _, n := range s.traces {
		total += n
	}
	return total
}
