package inspector

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/lockmw/go/lockevents"
	"github.com/lockmw/go/lockmw"
)

func TestSearchesHaveABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newSnapshot([]*entry{newEntry(lockmw.Status{Key: "user:42"}, nil, time.Now(), "user:42")}), newQueue()
		if !q.enter(t.Context()) {
			t.Fatal("a search without others does not get its turn")
		}
		var found atomic.Int64
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				if _, ok := s.choose(t.Context(), query{Text: fmt.Sprint(i), sort: defaultSort}, q); ok {
					found.Add(1)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		if _, ok := s.choose(t.Context(), query{Text: "one more", sort: defaultSort}, q); ok || time.Since(began) != 0 {
			t.Errorf("one more: found %v after %v", ok, time.Since(began))
		}
		q.leave()
		all.Wait()
		if found.Load() != 16 {
			t.Errorf("%d of 16 have their turn", found.Load())
		}
	})
}

func TestACachedSearchNeedsNoTurn(t *testing.T) {
	t.Parallel()
	s, q := newSnapshot([]*entry{newEntry(lockmw.Status{Key: "user:42"}, nil, time.Now(), "user:42")}), newQueue()
	asked := query{Text: "user", sort: defaultSort}
	if _, ok := s.choose(context.Background(), asked, q); !ok {
		t.Fatal("the first one is refused")
	}
	if !q.enter(context.Background()) {
		t.Fatal("a search without others does not get its turn")
	}
	defer q.leave()
	if _, ok := s.choose(context.Background(), asked.at(2), q); !ok {
		t.Error("the cached result is not found while another search runs")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, ok := s.choose(ctx, query{Text: "other", sort: defaultSort}, q); ok {
		t.Error("two searches run at the same time")
	}
}

// A viewer may leave after the feed has noticed it and before the read begins. Such a read would wait for the next viewer.
func TestAFeedBeginsNoReadAfterItsLastViewerHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		f := newFeed[int](new(pace), time.Minute, nil)
		f.read = func(_ context.Context, _ int, alive func()) (int, error) {
			reads++
			alive()
			return reads, nil
		}
		leave := f.watch(newViewer())
		synctest.Wait()
		leave()
		synctest.Wait()
		if reads != 1 || f.running {
			t.Fatalf("%d reads, running: %t; want 1 that has ended", reads, f.running)
		}
		f.readOnce()
		if reads != 1 {
			t.Error("a read began without viewers")
		}
	})
}

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

// The clock of the machine is set forward by an hour, so events have times that no point has.
func TestATrendIgnoresStepsOfTheClock(t *testing.T) {
	tr := newTrend()
	*(*uint64)(unsafe.Pointer(&tr.begun)) -= uint64(time.Hour/time.Second) << 30 // the seconds of a Time with a monotonic reading
	if wall := time.Now().Round(0).Sub(tr.begun.Round(0)); wall < time.Hour || time.Since(tr.begun) > time.Minute {
		t.Skipf("a Time looks different in this version of Go: %v", wall)
	}
	tr.count([]lockevents.Event{{Kind: lockevents.Lost, At: time.Now().Round(0)}})
	if got := total(tr.show(true).Losses); got != 1 {
		t.Errorf("%d losses, want 1", got)
	}
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
