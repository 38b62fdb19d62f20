package lockmw_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// takeOver is within how long calls and renewals find a new master, with the 4 s that its promotion takes. By itself
// go-redis asks once a minute who has which slots.
const takeOver = 30 * time.Second

func TestCallsAndRenewalsFindTheNewMasterOfTheirSlot(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	t.Parallel()
	c := redistest.NewCluster(t, 3, 1)
	kept, taken := c.KeyAt(0), []string{c.KeyAt(0), c.KeyAt(0)}
	renews, takes := usertest.Abandoned(t, c.Client(t)), usertest.Abandoned(t, c.Client(t))
	ctx, hold := usertest.Lock(t, t.Context(), renews, kept, lockmw.WithLease(takeOver))
	for _, key := range taken {
		if err := lockmw.Do(t.Context(), takes, key, func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	c.AwaitReplicated(0)

	c.Nodes[0].Kill()
	killed := time.Now()
	var wg sync.WaitGroup
	for _, key := range taken {
		wg.Go(func() {
			_, h, err := takes.Lock(t.Context(), key, lockmw.WithWait(takeOver))
			if err != nil {
				t.Error(err)
				return
			}
			t.Logf("a call has its lock after %v", time.Since(killed))
			usertest.Unlock(t, h)
		})
	}
	wg.Wait()
	for ctx.Err() == nil && !hold.Deadline().After(killed.Add(takeOver)) {
		time.Sleep(10 * time.Millisecond) // polling: nothing tells of a renewal that is confirmed
	}
	if ctx.Err() != nil {
		t.Errorf("the hold ended: %v", context.Cause(ctx))
	}
	t.Logf("the hold is renewed after %v", time.Since(killed))
	usertest.Unlock(t, hold)
}

// Until a slot has moved, its node finds no keys for a new lock, nor those that a release may delete.
func TestCallsWaitForASlotThatMoves(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	t.Parallel()
	c := redistest.NewCluster(t, 2, 0)
	locks := usertest.Abandoned(t, c.Client(t), lockmw.WithUnlockTimeout(takeOver))
	key := c.KeyAt(0)
	_, hold := usertest.Lock(t, t.Context(), locks, key)
	other := c.KeyAt(1)

	c.BeginMove(key)
	c.BeginMove(other)
	start := time.Now()
	if _, _, err := locks.TryLock(t.Context(), other); !errors.Is(err, lockmw.ErrUnavailable) || !strings.Contains(err.Error(), "TRYAGAIN") &&
		!strings.Contains(err.Error(), "ASK") {
		t.Errorf("TryLock: %v", err)
	}
	t.Logf("TryLock is told after %v", time.Since(start))
	if _, _, err := locks.Lock(t.Context(), other, lockmw.WithWait(time.Second)); !errors.Is(err, lockmw.ErrUnavailable) {
		t.Errorf("Lock: %v", err)
	}
	taken, released := make(chan error, 1), make(chan error, 1)
	go func() {
		taken <- lockmw.Do(t.Context(), locks, other, func(context.Context) error { return nil }, lockmw.WithWait(takeOver))
	}()
	go func() { released <- hold.Unlock() }()
	select {
	case err := <-taken:
		t.Errorf("Do has returned: %v", err)
	case err := <-released:
		t.Errorf("Unlock has returned: %v", err)
	case <-time.After(500 * time.Millisecond): // go-redis tries for a tenth of that
	}
	c.FinishMove(other)
	c.FinishMove(key)
	if err := <-taken; err != nil {
		t.Error(err)
	}
	if err := <-released; err != nil {
		t.Error(err)
	}
	if err := lockmw.Do(t.Context(), usertest.Abandoned(t, c.Client(t)), key, func(context.Context) error { return nil }, lockmw.WithWait(0)); err != nil {
		t.Errorf("after the release: %v", err)
	}
}
