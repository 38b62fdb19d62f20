package stat_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/lockmw/go/internal/bench/stat"
)

func TestJain(t *testing.T) {
	for _, test := range []struct {
		counts []int64
		want   float64
	}{
		{nil, 0},
		{[]int64{0, 0}, 0},
		{[]int64{7, 7, 7}, 1},
		{[]int64{9, 0, 0}, 1.0 / 3},
		{[]int64{1, 2, 3}, 36.0 / 42},
	} {
		if got := stat.Jain(test.counts); math.Abs(got-test.want) > 1e-12 {
			t.Errorf("Jain(%v) is %v, want %v", test.counts, got, test.want)
		}
	}
}

func TestPercentilesAreThoseOfAllDurations(t *testing.T) {
	var low, high stat.Latency
	for i := range 50 {
		low.Record(time.Duration(i+1) * time.Millisecond)
		high.Record(time.Duration(i+51) * time.Millisecond)
	}
	low.Merge(&high)
	for p, want := range map[float64]time.Duration{
		50: 50 * time.Millisecond, 99: 99 * time.Millisecond, 100: 100 * time.Millisecond,
	} {
		about(t, low.Percentile(p), want)
	}
	about(t, low.Max(), 100*time.Millisecond)
	if n := low.Count(); n != 100 {
		t.Errorf("there are %d durations", n)
	}
}

func about(t *testing.T, got, want time.Duration) {
	t.Helper()
	if math.Abs(float64(got-want)) > float64(want)/500 {
		t.Errorf("got %v, want %v to three digits", got, want)
	}
}

func TestLatencyOfNothingIsZero(t *testing.T) {
	var l, other stat.Latency
	l.Merge(&other)
	if l.Count() != 0 || l.Max() != 0 || l.Percentile(50) != 0 {
		t.Errorf("%d durations up to %v", l.Count(), l.Max())
	}
}

func TestDurationsOutOfRangeCount(t *testing.T) {
	var l stat.Latency
	l.Record(-time.Second, 2*time.Hour)
	if l.Count() != 2 || l.Max() < 59*time.Minute {
		t.Errorf("%d durations up to %v", l.Count(), l.Max())
	}
}

func TestLatencyTravelsAsJSON(t *testing.T) {
	type message struct{ Full, Empty stat.Latency }
	var sent, received message
	sent.Full.Record(200*time.Nanosecond, 3*time.Second)
	received.Empty.Record(time.Hour) // to be overwritten
	b, err := json.Marshal(&sent)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &received); err != nil {
		t.Fatal(err)
	}
	if received.Full.Count() != 2 || received.Empty.Count() != 0 {
		t.Errorf("%d and %d durations arrived", received.Full.Count(), received.Empty.Count())
	}
	about(t, received.Full.Percentile(50), 200*time.Nanosecond)
	about(t, received.Full.Max(), 3*time.Second)
	if err := json.Unmarshal([]byte(`"bm9uc2Vuc2U="`), &received.Full); err == nil {
		t.Error("nonsense was decoded")
	}
}
