package inspector

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
				if _, ok := s.choose(t.Context(), query{text: fmt.Sprint(i), sort: defaultSort}, q); ok {
					found.Add(1)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		if _, ok := s.choose(t.Context(), query{text: "one more", sort: defaultSort}, q); ok || time.Since(began) != 0 {
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
	asked := query{text: "user", sort: defaultSort}
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
	if _, ok := s.choose(ctx, query{text: "other", sort: defaultSort}, q); ok {
		t.Error("two searches run at the same time")
	}
}
