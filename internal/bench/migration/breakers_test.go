package migration_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/rueidis/rueidislock"

	"github.com/lockmw/go/bridge"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// Calls of old code that take the old key from a bridge. Its hold ends, and the cause says why.
func TestABridgeReportsThatOldCodeBreaksItsLock(t *testing.T) {
	at := oneServer(t)
	rdb := at.client()
	for _, test := range []struct {
		name, library, why string
		breaks             func(ctx context.Context, key string) error
	}{
		{name: "ForceWithContext", library: "rueidislock", why: "has another holder", breaks: func(ctx context.Context, key string) error {
			locker, err := rueidislock.NewLocker(rueidislock.LockerOption{ClientOption: at.rueidis(), TryNextAfter: time.Second})
			if err != nil {
				return err
			}
			t.Cleanup(locker.Close)
			_, _, err = locker.ForceWithContext(ctx, key)
			return err
		}},
		{name: "forceUnlock", library: "redisson", why: "is gone from the server", breaks: func(ctx context.Context, key string) error {
			return rdb.Del(ctx, key).Err() // and a message to those who wait
		}},
		{name: "SET without NX", library: "setnx", why: "has another holder", breaks: func(ctx context.Context, key string) error {
			return rdb.Set(ctx, "old:"+key, "mine", time.Minute).Err()
		}},
		{name: "DEL without a comparison", library: "redislock", why: "is gone from the server", breaks: func(ctx context.Context, key string) error {
			return rdb.Del(ctx, key).Err()
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			key := lockmw.Key("broken", test.name)
			ctx, hold := lockBy(t, test.library, at.address, key, lease)
			if err := test.breaks(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			isLost(ctx, t, hold, test.why)
		})
	}
}

// The key of the bridge is lost, for example in a failover. A process that has had the lock before makes it again.
func TestABridgeReportsThatRedsyncMakesALostKeyAgain(t *testing.T) {
	at := oneServer(t)
	rdb, key := at.client(), "item:1"
	m := redsync.New(goredis.NewPool(rdb)).NewMutex(key, redsync.WithSetNXOnExtend())
	if err := m.Lock(); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Unlock(); err != nil {
		t.Fatal(err)
	}
	ctx, hold := lockBy(t, "redsync", at.address, key, 3*lease)
	if ok, _ := m.Extend(); ok {
		t.Error("redsync extends a lock that the bridge has")
	}
	left := time.Hour
	usertest.Eventually(t, "the bridge renews its key, and will not look at it for 2s", time.Minute, func() bool {
		before := left
		left = rdb.PTTL(t.Context(), key).Val()
		return left > before
	})
	rdb.Del(t.Context(), key)
	if ok, err := m.Extend(); !ok {
		t.Errorf("redsync has not made the key again: %v", err)
	}
	isLost(ctx, t, hold, "has another holder")
}

// lockBy takes a lock by a bridge.
func lockBy(t *testing.T, name string, at address, key string, lease time.Duration) (context.Context, *lockmw.Hold) {
	locks, err := libraryOf(name).locker(both, at)
	if err != nil {
		t.Fatal(err)
	}
	ctx, hold, err := locks.Lock(t.Context(), key, lockmw.WithLease(lease))
	if err != nil {
		t.Fatal(err)
	}
	return ctx, hold
}

// isLost waits for the end of a hold whose old key was broken, and checks the cause.
func isLost(ctx context.Context, t *testing.T, hold *lockmw.Hold, why string) {
	<-ctx.Done()
	cause := context.Cause(ctx)
	if _, about := errors.AsType[*bridge.OldKeyError](cause); !about || !errors.Is(cause, lockmw.ErrLost) || !strings.Contains(cause.Error(), why) {
		t.Errorf("the cause is %v, want that the old key %s", cause, why)
	}
	if err := hold.Unlock(); !errors.Is(err, lockmw.ErrLost) {
		t.Errorf("Unlock: %v", err)
	}
}
