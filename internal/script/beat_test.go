package script_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/scripttest"
)

// Processes that have been gone for long are forgotten now and then, a limited number by each beat: a script must not last.
func TestABeatForgetsAThousandProcessesAtMost(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		var gone []any
		for i := range 1500 {
			gone = append(gone, d.Inbox(strconv.Itoa(i)), "+"+strconv.FormatInt(d.Redis.Time(d.Context()).Val().UnixMilli(), 10))
		}
		d.Redis.HSet(d.Context(), d.Keys.Alive(), gone...)
		for _, left := range []int64{500, 0} {
			later(24 * time.Hour)
			d.Beat("a", true)
			if n := d.Redis.HLen(d.Context(), d.Keys.Alive()).Val() - 4; n != left { // a, and three times
				d.Errorf("%d are left, want %d", n, left)
			}
		}
	})
}
