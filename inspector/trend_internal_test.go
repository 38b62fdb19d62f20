package inspector

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/lockevents"
)

// total adds up counts.
func total(counts []int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

func TestATrendCoversAllItsTimeInBoundedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrend()
		tr.count([]lockevents.Event{{Kind: lockevents.Lost, At: time.Now().Add(-time.Second)}}) // before it began
		tr.wait(7)
		for range 3000 {
			time.Sleep(time.Minute)
			tr.count([]lockevents.Event{
				{Kind: lockevents.Lost, At: time.Now().Add(-30 * time.Second)}, {Kind: lockevents.Acquired, Contended: true, At: time.Now().Add(time.Hour)},
				{Kind: lockevents.Acquired, At: time.Now()}, {Kind: lockevents.Released, At: time.Now()},
			})
		}
		b := tr.show(true)
		if n := len(b.Losses); n > trendSteps || n < trendSteps/2 || len(b.HandOvers) != n || len(b.Waiting) != n {
			t.Errorf("%d, %d and %d points", len(b.Waiting), len(b.Losses), len(b.HandOvers))
		}
		if total(b.Losses) != 3000 || total(b.HandOvers) != 3000 {
			t.Errorf("%d losses and %d hand-overs, want 3000 of each", total(b.Losses), total(b.HandOvers))
		}
		if *b.Waiting[0] != 7 || b.Waiting[1] != nil {
			t.Errorf("waits are %v, %v", *b.Waiting[0], b.Waiting[1])
		}
		if whole := time.Duration(b.Step) * time.Millisecond * time.Duration(len(b.Losses)); whole < 3000*time.Minute || whole > 3200*time.Minute {
			t.Errorf("it covers %v", whole)
		}
	})
}

func TestALineHasGapsWithoutViewers(t *testing.T) {
	one, three := 1, 3
	if got, want := drawn([]*int{&three, &one, nil, &one, nil}), "M0.0 2.0h1L30.0 20.7M90.0 20.7h1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := drawn([]*int{nil}); got != "" {
		t.Errorf("of nothing: %s", got)
	}
}
