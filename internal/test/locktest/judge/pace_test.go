package judge

import (
	"testing"
	"time"
)

func TestPaceCountsTheTimeBetweenDelays(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	p := new(Pace)
	p.note(at(100), 40*time.Millisecond)
	p.note(at(300), 10*time.Millisecond)
	for _, x := range []struct {
		from, to, want int // in ms
	}{
		{0, 50, 50}, {0, 90, 60}, {0, 200, 160}, {80, 200, 100}, {0, 400, 350}, {150, 400, 240}, {310, 400, 90},
	} {
		if got := p.Between(at(x.from), at(x.to)); got != at(x.want).Sub(start) {
			t.Errorf("from %d ms to %d ms: %v, want %d ms", x.from, x.to, got, x.want)
		}
	}
	p.due = at(400) // it has not gone on since
	if got := p.Between(at(310), at(500)); got != 90*time.Millisecond+paceIdle {
		t.Errorf("with a delay that goes on: %v", got)
	}
	if got := (*Pace)(nil).Between(at(0), at(400)); got != 400*time.Millisecond {
		t.Errorf("without a pace: %v", got)
	}
}
