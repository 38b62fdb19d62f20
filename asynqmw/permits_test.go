package asynqmw_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/semaphore"
)

// At most 3 tasks of a key run at a time, over two servers. The others are parked, and woken when one has ended.
func TestSoManyTasksOfAKeyRunAtATime(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		const tasks, n = 40, 3
		q, rdb := newQueue(t, queueOn(s)), s.NewClient(t)
		var inside atomic.Int32
		var mu sync.Mutex
		most := int32(0)
		h := handle(func(context.Context) error {
			now := inside.Add(1)
			mu.Lock()
			most = max(most, now)
			mu.Unlock()
			time.Sleep(5 * time.Millisecond) // the work
			inside.Add(-1)
			return nil
		})
		resume := q.pause()
		var ids []string
		for range tasks {
			ids = append(ids, q.fulfil("7"))
		}
		for range 2 {
			startServer(t, queueOn(s), parked(6), asynqmw.WithLock(semaphore.New(usertest.Client(t, s), n), byItem)(h))
		}
		resume(2)
		q.awaitDone(ids...)
		mu.Lock()
		defer mu.Unlock()
		if most > n {
			t.Errorf("up to %d tasks ran at a time, want %d at most", most, n)
		}
		nothingParked(t, rdb)
	})
}

func TestATaskWithoutAPermitIsParkedAndWoken(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		t.Parallel()
		q := newQueue(t, queueOn(s))
		others := semaphore.New(usertest.Client(t, s), 2)
		_, first, err := others.Lock(t.Context(), "item:7")
		if err != nil {
			t.Fatal(err)
		}
		_, second, err := others.Lock(t.Context(), "item:7")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = second.Unlock() })
		startServer(t, queueOn(s), parked(4), asynqmw.WithLock(semaphore.New(usertest.Client(t, s), 2), byItem)(
			handle(func(context.Context) error { return nil })))
		one, two := q.fulfil("7"), q.fulfil("7")
		q.awaitParked(one, two)
		if err := first.Unlock(); err != nil { // the other permit stays taken: the key is never seen to be free
			t.Fatal(err)
		}
		q.awaitDone(one, two)
		nothingParked(t, s.NewClient(t))
	})
}
