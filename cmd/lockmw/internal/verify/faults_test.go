package verify

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/judge"
)

// On a busy machine the processes stand still while their server is slow. That excuses a lock for one of the times.
func TestATimeExcusesALockOnce(t *testing.T) {
	const s = time.Second
	got := report{Report: judge.Report{At: 20 * s}, Stalls: []judge.Interval{{From: 12 * s, To: 15 * s}}}
	slow := []judge.Interval{{From: 13 * s, To: 16 * s}}
	if late := tooLate(s, 10*s, got, slow, slow); late != 5*s-s/50 {
		t.Errorf("%v too late, want %v: 10s without the lease and without 4s of delays", late, 5*s-s/50)
	}
}
