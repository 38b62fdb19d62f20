package bridge_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// The rights in docs/migrating.md are enough for the old keys.
func TestRightsOnOldKeys(t *testing.T) {
	server := redistest.Redis(t)
	admin := server.NewClient(t)
	all := []string{"~*", "&*", "+eval", "+evalsha", "+del", "+pexpire", "+pttl"}
	rights := map[string][]string{
		"strings":  append(slices.Clip(all), "+set", "+get"),
		"Redisson": append(slices.Clip(all), "+exists", "+hexists", "+hset", "+hdel", "+publish"),
	}
	for _, way := range oldWays() {
		t.Run(way.name, func(t *testing.T) {
			user, ok := rights[way.name]
			if !ok {
				user = rights["strings"]
			}
			if err := redistest.SetUser(t.Context(), admin, "old", append([]string{"reset", "on", ">right"}, user...)...); err != nil {
				t.Fatal(err)
			}
			rdb := server.NewClient(t, func(o *redis.Options) { o.Username, o.Password = "old", "right" })
			locks := way.bridge(usertest.Client(t, server), rdb)
			t.Cleanup(locks.Close)
			_, hold := usertest.Lock(t, t.Context(), locks, key)
			if err := hold.Extend(t.Context(), time.Minute); err != nil {
				t.Error(err)
			}
			usertest.Unlock(t, hold)
			way.takeAll(t, admin, "old")
			_, _, err := locks.TryLock(t.Context(), key)
			if !errors.Is(err, lockmw.ErrBusy) {
				t.Errorf("%v, want ErrBusy", err)
			}
			way.freeAll(t, admin, "old")
		})
	}
}
