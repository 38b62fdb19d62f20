package cronmw

import (
	"testing"
	"time"

	"github.com/robfig/cron/v3"
)

// A clock that is set back must not repeat a time.
func TestTheNextTimeIsAfterTheLastOne(t *testing.T) {
	hourly, err := cron.ParseStandard("CRON_TZ=UTC 0 * * * *")
	if err != nil {
		t.Fatal(err)
	}
	for _, ahead := range []time.Duration{0, 24 * time.Hour} {
		last := hourly.Next(time.Now().Add(ahead))
		if at := next(hourly, last); !at.After(last) {
			t.Errorf("after %v comes %v", last, at)
		}
	}
}
