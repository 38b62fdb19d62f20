package workload_test

import (
	"strings"
	"testing"

	"github.com/lockmw/go/internal/bench/library"
	"github.com/lockmw/go/internal/bench/workload"
)

// A semaphore is not exclusive, and would fail where locks are measured.
func TestSemaphoresAreMeasuredAsSuch(t *testing.T) {
	for _, w := range workload.All() {
		for _, l := range library.All() {
			if want := strings.HasPrefix(w.Name, "sem"); l.Permits && w.Runs(l) != want {
				t.Errorf("%s with %s: %t, want %t", w.Name, l.Name, !want, want)
			}
		}
	}
}
