package main

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rivermw"
)

// play runs the program, and returns what it printed and the spans.
func play(t *testing.T) (out string, spans *recorder) {
	t.Helper()
	var stdout bytes.Buffer
	spans = &recorder{}
	tracer, err := newTracer(t.Context(), spans, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := newScene(&stdout, tracer).play(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, &stdout)
	}
	if err := tracer.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	return stdout.String(), spans
}

func TestAllFourExcludeEachOtherOnTheirItemOnly(t *testing.T) {
	out, _ := play(t)
	var events []string
	for line := range strings.Lines(out) {
		_, event, _ := strings.Cut(line, " ms ")
		events = append(events, strings.Join(strings.Fields(event), " "))
	}
	want := []string{
		"task restocks item 7", "request sells item 8", "request is done with item 8", "task is done with item 7",
		"request sells item 7", "request is done with item 7",
		"job prices item 7", "job is done with item 7", "message ships item 7", "message is done with item 7",
	}
	if !slices.Equal(events, want) {
		t.Errorf("it printed\n%swant the events %q", out, want)
	}
}

func TestOneTraceShowsWhichWorkWaitedForWhich(t *testing.T) {
	_, spans := play(t)
	waited := make(map[string][]string) // by the name of the work
	for _, acquire := range spans.spans {
		if trace := spans.spans[0].SpanContext().TraceID(); acquire.SpanContext().TraceID() != trace {
			t.Errorf("%s is in a trace of its own", acquire.Name())
		}
		if acquire.Name() == "acquire_lock item" {
			for _, work := range spans.workUnder(acquire) {
				waited[work.Name()] = spans.waitedFor(acquire)
			}
		}
	}
	for work, holders := range map[string][]string{
		"task restocks item 7": nil,
		"request sells item 8": nil,
		"request sells item 7": {"task restocks item 7"},
		"job prices item 7":    {"request sells item 7"},
		"message ships item 7": {"job prices item 7"},
	} {
		if got, ok := waited[work]; !ok || !slices.Equal(got, holders) {
			t.Errorf("%s has run: %t, after it waited for %q, want %q", work, ok, got, holders)
		}
	}
}

// Only the Waker can end the snooze.
func TestASnoozedJobInSQLiteIsWoken(t *testing.T) {
	spans := &recorder{}
	tracer, err := newTracer(t.Context(), spans, "")
	if err != nil {
		t.Fatal(err)
	}
	s := newScene(io.Discard, tracer)
	defer func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}()
	locks, err := s.openLocks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	repriceItem, err := s.openJobs(t.Context(), locks, lockmw.WithWait(0), rivermw.WithSnooze(time.Hour, time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	_, hold, err := locks.Lock(t.Context(), lockmw.Key("item", "9"))
	if err != nil {
		t.Fatal(err)
	}
	if err := repriceItem(t.Context(), "9"); err != nil {
		t.Fatal(err)
	}
	spans.await(t, "process reprice") // the attempt that was snoozed
	if err := hold.Unlock(); err != nil {
		t.Fatal(err)
	}
	spans.await(t, "job prices item 9")
}

// await waits until a span with that name has ended.
func (r *recorder) await(t *testing.T, name string) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(time.Millisecond) { // polling
		r.mu.Lock()
		found := slices.ContainsFunc(r.spans, func(s sdktrace.ReadOnlySpan) bool { return s.Name() == name })
		r.mu.Unlock()
		if found {
			return
		}
	}
	t.Fatalf("no span %q has ended", name)
}

func TestTheProgramPrintsTheTrace(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), nil, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var waitedFor []string
	for line := range strings.Lines(out.String()) {
		if wait := strings.Fields(line); len(wait) > 6 && wait[0] == "acquire_lock" {
			waitedFor = append(waitedFor, strings.Join(wait[6:], " "))
		}
	}
	if want := []string{"task restocks item 7", "request sells item 7", "job prices item 7"}; !slices.Equal(waitedFor, want) {
		t.Errorf("calls waited for %q, want %q:\n%s", waitedFor, want, &out)
	}
	if err := run(context.Background(), []string{"7"}, &out, io.Discard); err == nil {
		t.Error("an argument is accepted")
	}
}
