package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/internal/transport"
	"github.com/lockmw/go/lockmw"
)

// inOneSlot returns n keys whose locks are in the slot of the first, which is one of node 0.
func inOneSlot(c *redistest.Cluster, n int) []string {
	layout := script.NewLayout("lockmw", transport.Topology{Cluster: true})
	counter := func(key string) string {
		keys := layout.KeySet(key)
		return keys.Fence()
	}
	keys := []string{c.KeyAt(0)}
	for i := 0; len(keys) < n; i++ {
		if key := fmt.Sprint("slot:", i); counter(key) == counter(keys[0]) {
			keys = append(keys, key)
		}
	}
	return keys
}

// While their slot moves, each node has some of the keys. LockAll never takes a part of them, and no key gets a second holder.
func TestLockAllWaitsForASlotThatMoves(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	t.Parallel()
	c := redistest.NewCluster(t, 2, 0)
	locks, other := usertest.Abandoned(t, c.Client(t), lockmw.WithUnlockTimeout(takeOver)), usertest.Abandoned(t, c.Client(t))
	keys := inOneSlot(c, 3)
	taken := func(when string) lockmw.Holds {
		t.Helper()
		_, holds, err := lockmw.LockAll(t.Context(), locks, keys, lockmw.WithWait(takeOver))
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		return holds
	}
	wantHeld := func(when string, want bool) {
		t.Helper()
		for _, key := range keys {
			_, h, err := other.Lock(context.WithoutCancel(t.Context()), key, lockmw.WithWait(0))
			if want != errors.Is(err, lockmw.ErrBusy) || !want && err != nil {
				t.Errorf("%s, a try of %s by another: %v", when, key, err)
			}
			if err == nil {
				_ = h.Unlock()
			}
		}
	}
	holds := taken("before the move")
	wantHeld("before the move", true)

	c.BeginMove(keys[0]) // the keys are where they were
	released := make(chan error, 1)
	go func() { released <- holds.Unlock() }()
	c.FinishMove(keys[0])
	if err := <-released; err != nil {
		t.Errorf("Unlock while the slot moves: %v", err)
	}
	wantHeld("after the release", false)

	c.BeginMove(keys[0]) // there are none, so that the other node has them
	if _, _, err := lockmw.LockAll(t.Context(), locks, keys, lockmw.WithWait(0)); !errors.Is(err, lockmw.ErrUnavailable) {
		t.Errorf("LockAll that does not wait: %v, want ErrUnavailable", err)
	}
	got := make(chan lockmw.Holds, 1)
	go func() {
		_, holds, err := lockmw.LockAll(context.WithoutCancel(t.Context()), locks, keys, lockmw.WithWait(takeOver))
		if err != nil {
			t.Error(err)
		}
		got <- holds
	}()
	select {
	case holds := <-got:
		t.Errorf("LockAll has returned while the slot moves: %v", holds)
	case <-time.After(500 * time.Millisecond): // go-redis tries for a tenth of that
	}
	c.FinishMove(keys[0])
	if holds = <-got; holds != nil {
		wantHeld("after the second move", true)
		usertest.Unlock(t, holds)
	}
	wantHeld("at the end", false)
}
