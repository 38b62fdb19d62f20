package main

import (
	"strings"
	"testing"
)

func TestTheVerdictIsAboutWaysThatWereRun(t *testing.T) {
	for want, cells := range map[string][]result{
		"No guarded way was run.\n":                     {{}},
		"Every guarded way kept all money and items.\n": {{}, {Guarded: true, right: true}},
	} {
		var b strings.Builder
		if (&report{Cells: cells}).verdict(&b); b.String() != want {
			t.Errorf("the verdict is %q, want %q", b.String(), want)
		}
	}
}

func TestNumbersHaveNoExponents(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0", 0.01: "0.01", 0.25: "0.25", 3.14: "3.1", 9.96: "10", 17.3: "17", 150: "150", 149.6: "150", 1500: "1,500", 2.5e7: "25,000,000",
	} {
		if got := (&result{RetriesPerPurchase: &f}).retriesEach(); got != want {
			t.Errorf("%v retries: %q, want %q", f, got, want)
		}
	}
}
