package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/examples/orders/internal/scene"
	"github.com/lockmw/go/internal/test/integration/collector"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
)

func TestTheSceneShowsEachWaitWithItsHolder(t *testing.T) {
	t.Parallel()
	t.Run("embedded Redis", func(t *testing.T) {
		t.Parallel()
		checkScene(t)
	})
	t.Run("real Redis", func(t *testing.T) {
		t.Parallel()
		checkScene(t, "-redis", redistest.Redis(t).Addr())
	})
}

func checkScene(t *testing.T, args ...string) {
	t.Helper()
	c := listen(t, collector.StartForSpans)
	var stdout bytes.Buffer
	var stderr usertest.Output
	start := time.Now()
	if code := run(t.Context(), append(args, "-contend", "-otlp", c.Addr()), &stdout, &stderr); code != exitOK {
		t.Fatalf("exit status %d\n%s%s", code, &stdout, &stderr)
	}
	if took := time.Since(start); took > 2*time.Minute {
		t.Errorf("took %v", took)
	}
	if want := "orders: " + c.Addr() + " accepts spans, but no metrics\n"; stderr.String() != want {
		t.Errorf("stderr is %q, want %q", stderr.String(), want)
	}

	spans := c.Data().Spans
	turns := turnsIn(spans)
	if len(turns) != 4 {
		t.Fatalf("%d turns at the item, want 4\n%s", len(turns), &stdout)
	}
	checkLinks(t, turns)
	ann, bob := turns[0].ID.Trace, turns[1].ID.Trace
	checkTable(t, stdout.String(), ann, bob)
	for _, trace := range []string{ann, bob} {
		if got := treeOf(trace, spans); got != sceneTree {
			t.Errorf("trace %s is\n%s\nwant\n%s", trace, got, sceneTree)
		}
	}
}

const sceneTree = `
POST /users/{userID}/orders server
  acquire_lock user internal
  hold_lock user internal
    acquire_lock item internal
    hold_lock item internal
      pay internal
    process order:fulfil consumer
      acquire_lock item internal
      hold_lock item internal
        ship internal
`

// turnsIn returns the acquire_lock spans of the item, sorted by their grant.
func turnsIn(spans []collector.Span) []collector.Span {
	turns := slices.DeleteFunc(slices.Clone(spans), func(s collector.Span) bool { return s.Name != "acquire_lock item" })
	slices.SortFunc(turns, func(a, b collector.Span) int { return a.End.Compare(b.End) })
	return turns
}

// checkLinks checks that each turn but the first waited for the one before it, and links to it.
func checkLinks(t *testing.T, turns []collector.Span) {
	t.Helper()
	for i, turn := range turns {
		waited := turn.End.Sub(turn.Start)
		contended, _ := turn.Attributes["distributed_lock.contended"].(bool)
		switch {
		case contended != (i > 0):
			t.Errorf("turn %d: contended is %v", i+1, contended)
		case i == 0:
			if len(turn.Links) > 0 {
				t.Errorf("the first turn has links: %v", turn.Links)
			}
		case waited < scene.Takes:
			t.Errorf("turn %d waited %v, want at least %v", i+1, waited, scene.Takes)
		case len(turn.Links) != 1 || turn.Links[0].ID != turns[i-1].ID:
			t.Errorf("turn %d links to %v, want to the one before it", i+1, turn.Links)
		}
	}
	first, second := turns[0].ID.Trace, turns[1].ID.Trace
	if first == second || turns[2].ID.Trace != first || turns[3].ID.Trace != second {
		t.Error("the tasks are not in the traces of their requests")
	}
}

// checkTable checks that stdout has each wait with its holder and trace, and the search for Jaeger.
func checkTable(t *testing.T, stdout, ann, bob string) {
	t.Helper()
	var rows []string
	for line := range strings.Lines(stdout) {
		if strings.Contains(line, ann) || strings.Contains(line, bob) {
			words := strings.Fields(line)
			rows = append(rows, strings.Join(slices.DeleteFunc(words, func(w string) bool {
				return w == "ms" || strings.Trim(w, "0123456789") == "" && len(w) > 2
			}), " "))
		}
	}
	want := []string{
		"ann ordering – – " + ann,
		"bob ordering ann ordering " + bob,
		"order 1 shipping bob ordering " + ann,
		"order 2 shipping order 1 shipping " + bob,
	}
	if !slices.Equal(rows, want) {
		t.Errorf("rows are %q, want %q", rows, want)
	}
	for _, what := range []string{"service    orders\n", "operation  acquire_lock item\n", "distributed_lock.contended=true\n"} {
		if !strings.Contains(stdout, what) {
			t.Errorf("stdout lacks %q:\n%s", what, stdout)
		}
	}
}

// treeOf draws a trace: one line for each span below its parent, by start.
func treeOf(trace string, spans []collector.Span) string {
	children := make(map[collector.ID][]collector.Span)
	for _, span := range spans {
		if span.ID.Trace == trace {
			children[span.Parent] = append(children[span.Parent], span)
		}
	}
	var b strings.Builder
	var draw func(parent collector.ID, indent string)
	draw = func(parent collector.ID, indent string) {
		slices.SortFunc(children[parent], func(a, b collector.Span) int { return a.Start.Compare(b.Start) })
		for _, span := range children[parent] {
			fmt.Fprintf(&b, "%s%s %s\n", indent, span.Name, span.Kind)
			draw(span.ID, indent+"  ")
		}
	}
	b.WriteString("\n")
	draw(collector.ID{}, "")
	return b.String()
}

func TestAnInterruptedSceneEndsImmediately(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), scene.Takes*3/2)
	defer cancel()
	var stdout bytes.Buffer
	var stderr usertest.Output
	if code := run(ctx, []string{"-contend"}, &stdout, &stderr); code != exitInterrupted {
		t.Errorf("exit status %d, want %d\n%s%s", code, exitInterrupted, &stdout, &stderr)
	}
	if stdout.Len() > 0 || stderr.String() != "orders: interrupted\n" {
		t.Errorf("stdout is %q, stderr %q", &stdout, &stderr)
	}
}
