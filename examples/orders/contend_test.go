package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/lockmw/go/internal/redistest"
)

func TestTheSceneShowsWhoWaitedForWhom(t *testing.T) {
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
	c := listenForSpans(t)
	var stdout bytes.Buffer
	var stderr lockedBuffer
	start := time.Now()
	if code := run(t.Context(), append(args, "-contend", "-otlp", c.addr), &stdout, &stderr); code != exitOK {
		t.Fatalf("exit status %d\n%s%s", code, &stdout, &stderr)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	if want := "orders: " + c.addr + " takes spans, but no metrics\n"; stderr.String() != want {
		t.Errorf("stderr is %q, want %q", stderr.String(), want)
	}

	turns := turnsIn(c.spans)
	if len(turns) != 4 {
		t.Fatalf("%d turns at the item, want 4\n%s", len(turns), &stdout)
	}
	checkLinks(t, turns)
	ann, bob := traceOf(turns[0]), traceOf(turns[1])
	checkTable(t, stdout.String(), ann, bob)
	for _, trace := range []string{ann, bob} {
		if got := treeOf(trace, c.spans); got != sceneTree {
			t.Errorf("trace %s is\n%s\nwant\n%s", trace, got, sceneTree)
		}
	}
}

const sceneTree = `
POST /users/{userID}/orders SERVER
  acquire_lock user INTERNAL
  hold_lock user INTERNAL
    acquire_lock item INTERNAL
    hold_lock item INTERNAL
      pay INTERNAL
    process order:fulfil CONSUMER
      acquire_lock item INTERNAL
      hold_lock item INTERNAL
        ship INTERNAL
`

// turnsIn returns the acquire_lock spans of the item in the order of their success.
func turnsIn(spans map[string]*tracepb.Span) (turns []*tracepb.Span) {
	for _, span := range spans {
		if span.GetName() == "acquire_lock item" {
			turns = append(turns, span)
		}
	}
	slices.SortFunc(turns, func(a, b *tracepb.Span) int { return cmp.Compare(a.GetEndTimeUnixNano(), b.GetEndTimeUnixNano()) })
	return turns
}

// checkLinks asks that each turn but the first waited for the one before it, and links to it.
func checkLinks(t *testing.T, turns []*tracepb.Span) {
	t.Helper()
	for i, turn := range turns {
		waited := time.Duration(turn.GetEndTimeUnixNano() - turn.GetStartTimeUnixNano())
		contended := false
		for _, a := range turn.GetAttributes() {
			if a.GetKey() == "distributed_lock.contended" {
				contended = a.GetValue().GetBoolValue()
			}
		}
		links := turn.GetLinks()
		switch {
		case contended != (i > 0):
			t.Errorf("turn %d: contended is %v", i+1, contended)
		case i == 0:
			if len(links) > 0 {
				t.Errorf("the first turn has links: %v", links)
			}
		case waited < sceneTakes:
			t.Errorf("turn %d waited %v, want at least %v", i+1, waited, sceneTakes)
		case len(links) != 1 || !bytes.Equal(links[0].GetSpanId(), turns[i-1].GetSpanId()) ||
			!bytes.Equal(links[0].GetTraceId(), turns[i-1].GetTraceId()):
			t.Errorf("turn %d links to %v, want to the one before it", i+1, links)
		}
	}
	if first, second := traceOf(turns[0]), traceOf(turns[1]); first == second || traceOf(turns[2]) != first || traceOf(turns[3]) != second {
		t.Error("the tasks are not in the traces of their requests")
	}
}

// checkTable asks that stdout says who waited for whom, in which trace, and what to search for.
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

func traceOf(span *tracepb.Span) string { return fmt.Sprintf("%x", span.GetTraceId()) }

// treeOf draws a trace: one line for each span below its parent, by start.
func treeOf(trace string, spans map[string]*tracepb.Span) string {
	children := make(map[string][]*tracepb.Span)
	for _, span := range spans {
		if traceOf(span) == trace {
			parent := string(span.GetParentSpanId())
			children[parent] = append(children[parent], span)
		}
	}
	var b strings.Builder
	var draw func(parent, indent string)
	draw = func(parent, indent string) {
		slices.SortFunc(children[parent], func(a, b *tracepb.Span) int {
			return cmp.Compare(a.GetStartTimeUnixNano(), b.GetStartTimeUnixNano())
		})
		for _, span := range children[parent] {
			fmt.Fprintf(&b, "%s%s %s\n", indent, span.GetName(), strings.TrimPrefix(span.GetKind().String(), "SPAN_KIND_"))
			draw(string(span.GetSpanId()), indent+"  ")
		}
	}
	b.WriteString("\n")
	draw("", "")
	return b.String()
}

func TestAnInterruptedSceneEndsAtOnce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), sceneTakes*3/2)
	defer cancel()
	var stdout bytes.Buffer
	var stderr lockedBuffer
	if code := run(ctx, []string{"-contend"}, &stdout, &stderr); code != exitInterrupted {
		t.Errorf("exit status %d, want %d\n%s%s", code, exitInterrupted, &stdout, &stderr)
	}
	if stdout.Len() > 0 || stderr.String() != "orders: interrupted\n" {
		t.Errorf("stdout is %q, stderr %q", &stdout, &stderr)
	}
}
