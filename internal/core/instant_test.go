package core_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
)

func TestAnInstantCanBecomeJSON(t *testing.T) {
	for _, unit := range []time.Duration{time.Microsecond, time.Millisecond} {
		now := time.Now().Truncate(unit)
		if got := core.Instant(now.UnixNano()/int64(unit), unit); !got.Equal(now) {
			t.Errorf("%v, want %v", got, now)
		}
		last := 253_402_300_800*int64(time.Second/unit) - 1
		for n, isZero := range map[int64]bool{math.MinInt64: true, -1: true, 0: false, last: false, last + 1: true, math.MaxInt64: true} {
			got := core.Instant(n, unit)
			if _, err := json.Marshal(got.UTC()); err != nil || got.IsZero() != isZero {
				t.Errorf("Instant(%d, %v): %v, %v", n, unit, got, err)
			}
		}
	}
}
