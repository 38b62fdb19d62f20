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
		{0, 90, 90}, {0, 200, 160}, {0, 400, 350}, {150, 400, 240}, {310, 400, 90},
	} {
		if got := p.Between(at(x.from), at(x.to)); got != at(x.want).Sub(start) {
			t.Errorf("from %d ms to %d ms: %v, want %d ms", x.from, x.to, got, x.want)
		}
	}
	if got := (*Pace)(nil).Between(at(0), at(400)); got != 400*time.Millisecond {
		t.Errorf("without a pace: %v", got)
	}
}
