package inspect

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/transport"
)

func TestReadingGivenKeysReportsProgress(t *testing.T) {
	onManyLocks(t, func(i *Inspector, keys map[string]int) {
		var told []Progress
		how := Scan{Share: 1, Progress: func(p Progress) { told = append(told, p) }}
		found := make(map[string]int)
		for s, err := range i.Read(t.Context(), slices.Collect(maps.Keys(keys)), how) {
			if err != nil {
				t.Fatal(err)
			}
			found[s.Key]++
		}
		wantOnce(t, found, keys)
		if len(told) == 0 || told[len(told)-1] != (Progress{Locks: len(keys), Part: 1}) {
			t.Errorf("the progress is %+v", told)
		}
	})
}

// moving detects an answer of the Cluster that a slot moves.
type moving struct {
	counted
	seen func()
}

func (m moving) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if transport.IsMoving(err) {
			m.seen()
		}
		return err
	}
}

func TestAStatusIsReadWhenItsSlotHasMoved(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	t.Parallel()
	c := redistest.NewCluster(t, 3, 0)
	rdb := c.Client(t)
	key := c.KeyAt(0)
	put(t, rdb, true, key, 2)
	i, err := New(rdb, Config{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	c.BeginMove(key)
	var move sync.Once
	rdb.AddHook(moving{counted{new(atomic.Int64)}, func() { move.Do(func() { c.FinishMove(key) }) }})
	s, err := i.Get(t.Context(), key)
	if err != nil || len(s.Holders) != 1 || len(s.Waiters) != 2 {
		t.Errorf("the status is %+v, %v", s, err)
	}
	moved := true
	move.Do(func() { moved = false })
	if !moved {
		t.Error("no answer said that the slot moves")
	}
}
