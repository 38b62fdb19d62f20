package judge

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPaceExcludesDelays(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	p := &Pace{due: make(map[string]time.Duration)}
	for _, d := range []struct{ from, until int }{{60, 70}, {75, 80}, {65, 90}, {60, 100}, {290, 300}} { // some overlap
		p.note(Interval{MachineTime(at(d.from)), MachineTime(at(d.until))})
	}
	for _, x := range []struct {
		from, to, want int // in ms
	}{
		{0, 50, 50}, {0, 90, 60}, {0, 200, 160}, {80, 200, 100}, {0, 400, 350}, {150, 400, 240}, {310, 400, 90},
	} {
		if got := p.Between(at(x.from), at(x.to)); got != at(x.want).Sub(start) {
			t.Errorf("from %d ms to %d ms: %v, want %d ms", x.from, x.to, got, x.want)
		}
	}
	p.begin("one", at(400)) // not ended
	p.begin("another", at(450))
	if got := p.Between(at(310), at(500)); got != 90*time.Millisecond+paceIdle {
		t.Errorf("during delays: %v", got)
	}
	if got := p.Between(at(0), at(350)); got != 300*time.Millisecond {
		t.Errorf("before a delay that has not ended: %v", got)
	}
	if got := (*Pace)(nil).Between(at(0), at(400)); got != 400*time.Millisecond {
		t.Errorf("nil Pace: %v", got)
	}
}

func TestPaceExcludesDelaysOfAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = time.Second
		p, stop := NewPace()
		defer stop()
		late := make(chan struct{}, 1)
		defer p.Watch("server", func() {
			select {
			case <-late:
				time.Sleep(slow)
			default:
			}
		})()
		start := time.Now()
		time.Sleep(10 * slow)
		if got := p.Since(start); got != 10*slow {
			t.Errorf("%v with a fast server count as %v", 10*slow, got)
		}
		start = time.Now()
		late <- struct{}{}
		for left := 10 * slow; left > 0; left = 10*slow - p.Since(start) {
			time.Sleep(left)
		}
		if took := time.Since(start); took != 11*slow-paceIdle {
			t.Errorf("waiting for %v with a slow server took %v", 10*slow, took)
		}
	})
}
