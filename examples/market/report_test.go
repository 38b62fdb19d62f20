package main

import "testing"

func TestNumbersHaveNoExponents(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0", 0.01: "0.01", 0.25: "0.25", 3.14: "3.1", 9.96: "10", 17.3: "17", 150: "150", 149.6: "150", 1500: "1,500", 2.5e7: "25,000,000",
	} {
		if got := (&result{RetriesPerPurchase: &f}).retriesEach(); got != want {
			t.Errorf("%v retries: %q, want %q", f, got, want)
		}
	}
}
