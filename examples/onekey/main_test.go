package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestASaleWaitsForTheTaskOnItsItemOnly(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	var events []string
	for line := range strings.Lines(out.String()) {
		_, event, _ := strings.Cut(line, " ms  ")
		events = append(events, strings.Join(strings.Fields(event), " "))
	}
	want := []string{"task counts item 7", "request sells item 8", "task restocked item 7", "request sells item 7"}
	if !slices.Equal(events, want) {
		t.Errorf("it printed\n%swant the events %q", &out, want)
	}
}
