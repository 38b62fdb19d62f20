package judge

import (
	"testing"
	"time"
)

func TestTimesThatOverlapCountOnce(t *testing.T) {
	const s = time.Second
	one, other := []Interval{{2 * s, 5 * s}, {8 * s, 9 * s}}, []Interval{{3 * s, 6 * s}, {1 * s, 2 * s}, {4 * s, 5 * s}}
	for _, x := range []struct {
		from, to time.Duration
		all      [][]Interval
		want     time.Duration
	}{
		{0, 10 * s, nil, 0},
		{0, 10 * s, [][]Interval{one}, 4 * s},
		{0, 10 * s, [][]Interval{one, other}, 6 * s},
		{3 * s, 4 * s, [][]Interval{one, other}, 1 * s},
		{5 * s, 7 * s, [][]Interval{one, other}, 1 * s},
		{9 * s, 10 * s, [][]Interval{one, other}, 0},
	} {
		if got := Within(x.from, x.to, x.all...); got != x.want {
			t.Errorf("from %v to %v of %v: %v, want %v", x.from, x.to, x.all, got, x.want)
		}
	}
}

func TestAnIntervalThatHasNotEndedCounts(t *testing.T) {
	var i Intervals
	i.Begin(time.Second)
	i.End(2 * time.Second)
	i.Begin(5 * time.Second)
	if got := i.Within(0, 7*time.Second); got != 3*time.Second {
		t.Errorf("%v, want 3s", got)
	}
	i.End(6 * time.Second)
	if got := i.Within(0, 7*time.Second); got != 2*time.Second {
		t.Errorf("%v, want 2s", got)
	}
}
