package clock

import (
	"testing"
	"time"
)

// Each case has successive readings of the system clocks, and the time that counts as skipped in the end.
func TestSkippedTimeIsFound(t *testing.T) {
	const s, ms = int64(time.Second), int64(time.Millisecond)
	exact := func(wall, mono, boot int64) reading {
		return reading{wall: wall, mono: mono, boot: boot, hasBoot: true, exact: true}
	}
	late := func(wall, mono, boot int64) reading {
		return reading{wall: wall, mono: mono, boot: boot, hasBoot: true}
	}
	onlyWall := func(wall, mono int64) reading { return reading{wall: wall, mono: mono, exact: true} }
	for name, tt := range map[string]struct {
		readings []reading
		skipped  int64
	}{
		"nothing":                                {[]reading{exact(9*s, 9*s, 9*s)}, 0},
		"a sleep, which both other clocks show":  {[]reading{exact(70*s, 10*s, 70*s), exact(71*s, 11*s, 71*s)}, 60 * s},
		"a sleep where only the wall clock runs": {[]reading{onlyWall(70*s, 10*s)}, 60 * s},
		"a step forward":                         {[]reading{exact(70*s, 10*s, 10*s), exact(71*s, 11*s, 11*s)}, 60 * s},
		"a step back":                            {[]reading{exact(4*s, 10*s, 10*s), exact(5*s, 11*s, 11*s)}, 0},
		"a step back, then a sleep":              {[]reading{exact(4*s, 10*s, 10*s), exact(65*s, 11*s, 71*s)}, 60 * s},
		"a step back, then forward":              {[]reading{exact(4*s, 10*s, 10*s), exact(11*s, 11*s, 11*s)}, 6 * s},
		"a sleep hidden by a step back":          {[]reading{exact(10*s, 10*s, 70*s), exact(11*s, 11*s, 71*s)}, 60 * s},
		"a sleep with a step forward":            {[]reading{exact(75*s, 10*s, 70*s), exact(76*s, 11*s, 71*s)}, 65 * s},
		"two sleeps":                             {[]reading{exact(20*s, 10*s, 20*s), exact(40*s, 20*s, 40*s)}, 20 * s},
		"slow drift, which adds up":              {[]reading{exact(s+15*ms, s, s), exact(2*s+25*ms, 2*s, 2*s), exact(3*s+30*ms, 3*s, 3*s)}, 25 * ms},
		"jitter":                                 {[]reading{exact(s+15*ms, s, s), exact(2*s, 2*s, 2*s), exact(3*s+15*ms, 3*s, 3*s)}, 0},
		"a pause while the clocks are read":      {[]reading{late(s, 6*s, s), exact(7*s, 7*s, 7*s)}, 0},
		"a sleep and a pause":                    {[]reading{late(61*s, 6*s, 61*s), exact(67*s, 7*s, 67*s)}, 60 * s},
	} {
		t.Run(name, func(t *testing.T) {
			var k skips
			for _, r := range tt.readings {
				k.note(r)
			}
			if got := k.skipped.Load(); got != tt.skipped {
				t.Errorf("%v count as skipped, want %v", time.Duration(got), time.Duration(tt.skipped))
			}
		})
	}
}

// On a machine that does not sleep, no time counts as skipped, whatever the load.
func TestNoTimeIsSkippedWhileTheMachineRuns(t *testing.T) {
	DetectSkips() // what happened before
	before := process.skipped.Load()
	begun, i := time.Now(), Now()
	for last := i; time.Since(begun) < 50*time.Millisecond; {
		DetectSkips()
		now := Now()
		if now.Before(last) {
			t.Fatalf("the clock went back by %v", last.Sub(now))
		}
		last = now
	}
	if got := process.skipped.Load() - before; got != 0 {
		t.Errorf("%v were skipped", time.Duration(got))
	}
	if a, b := Since(i), time.Since(begun); (a - b).Abs() > time.Minute {
		t.Errorf("%v have passed, and %v by time.Now", a, b)
	}
}

// The next reading of the clock finds a step of the wall clock, without a call of DetectSkips.
func TestNowFindsWhatTheWallClockShows(t *testing.T) {
	i := Now()
	process.wall.Add(-int64(time.Hour)) // as if it had been an hour less ahead
	if got := Since(i); got < time.Hour || got > time.Hour+time.Minute {
		t.Errorf("%v have passed, want an hour", got)
	}
	deadline := i.Add(time.Hour)
	if left := time.Until(deadline.Time()); left > 0 {
		t.Errorf("time.Now is %v before an instant that has passed", left)
	}
	process.wall.Add(int64(time.Hour))
	if got := Since(i); got > time.Hour+time.Minute {
		t.Errorf("%v have passed after a step back, want an hour", got)
	}
}

func TestInstants(t *testing.T) {
	now := Now()
	if far := now.Add(1<<63 - 1); far.Before(now) {
		t.Error("the end of time is in the past")
	}
	if !Instant(0).Time().IsZero() || !Instant(0).Before(now) {
		t.Error("the zero Instant is not before all others")
	}
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		Now()
	}
}

// For comparison with Now.
func BenchmarkMonotonic(b *testing.B) {
	for b.Loop() {
		time.Since(start)
	}
}
