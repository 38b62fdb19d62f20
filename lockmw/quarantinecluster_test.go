package lockmw_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// In a Cluster each node is in quarantine by itself, and one note serves all keys of it.
func TestEachNodeOfAClusterHasAQuarantineOfItsOwn(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	t.Parallel()
	c := redistest.NewCluster(t, 2, 1)
	client := func() *lockmw.Client {
		t.Helper()
		locks := usertest.Abandoned(t, c.Client(t), lockmw.WithLease(keptLease), lockmw.WithQuarantine(longQuarantine))
		return locks
	}
	used := func(locks *lockmw.Client, key string) {
		t.Helper()
		_, h := usertest.Lock(t, context.WithoutCancel(t.Context()), locks, key)
		usertest.Unlock(t, h)
	}
	locks := client()
	deposed, other := c.KeyAt(0), c.KeyAt(1)
	used(locks, deposed)
	used(locks, other)
	begun := time.Now()
	promoted := c.KeyAt(c.Depose(deposed))
	used(locks, deposed)
	if took := time.Since(begun); took < longQuarantine {
		t.Errorf("the new master grants %v after its promotion began", took)
	}
	begun = time.Now()
	used(locks, other)
	late := client()
	used(late, promoted) // by the note of the first one
	used(late, other)
	if took := time.Since(begun); took > longQuarantine/2 {
		t.Errorf("a lock that was not lost was granted after %v", took)
	}
}

// A slot may move between nodes that are both trusted, and clients learn of it at their next call.
func TestATryFollowsASlotThatHasMovedToATrustedNode(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	t.Parallel()
	c := redistest.NewCluster(t, 2, 0)
	locks := usertest.Abandoned(t, c.Client(t), lockmw.WithLease(quarantinedLease), lockmw.WithQuarantine(quarantine))
	var wg sync.WaitGroup
	for node := range 2 {
		wg.Go(func() {
			if h := hold(t, locks, c.KeyAt(node)); h != nil {
				_ = h.Unlock()
			}
		})
	}
	wg.Wait()
	for i := range 4 {
		key := fmt.Sprintf("item:%d", i)
		c.Move(key)
		_, h, err := locks.TryLock(context.WithoutCancel(t.Context()), key)
		if err != nil {
			t.Errorf("a try after the move: %v", err)
			continue
		}
		usertest.Unlock(t, h)
	}
}
