package bridge_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/bridge"
	"github.com/lockmw/go/lockmw"
)

// lease is the lease of old holders.
const lease = 8 * time.Second

// An oldWay takes locks as an old library does, and makes the bridge to it.
type oldWay struct {
	name   string
	keys   []string // of the lock "item:7"
	quorum int
	bridge func(lockmw.Locker, redis.Scripter) *bridge.Locker
	take   func(ctx context.Context, rdb redis.Cmdable, key, value string) bool
	renew  func(ctx context.Context, rdb redis.Cmdable, key, value string) bool
	free   func(ctx context.Context, rdb redis.Cmdable, key, value string) bool
}

func oldWays() []oldWay {
	var rueidis []string
	for i := range 3 {
		rueidis = append(rueidis, "rueidislock:"+strconv.Itoa(i)+":item:7")
	}
	return []oldWay{
		{"redsync", []string{"item:7"}, 1, func(l lockmw.Locker, rdb redis.Scripter) *bridge.Locker {
			return bridge.Redsync(l, rdb)
		}, takeString, renewString, freeString},
		{"redislock", []string{"item:7"}, 1, bridge.Redislock, takeString, renewString, freeString},
		{"rueidislock", rueidis, 2, func(l lockmw.Locker, rdb redis.Scripter) *bridge.Locker {
			return bridge.Rueidislock(l, rdb, "", 0)
		}, takeString, renewString, freeString},
		{"Redisson", []string{"item:7"}, 1, bridge.Redisson, takeHash, renewHash, freeHash},
		{"SET NX", []string{"old/item:7"}, 1, func(l lockmw.Locker, rdb redis.Scripter) *bridge.Locker {
			return bridge.SetNX(l, rdb, func(key string) string { return "old/" + key })
		}, takeString, renewString, freeString},
	}
}

// takeAll takes all keys of a lock as the old library does. It reports whether it has got enough of them.
func (w *oldWay) takeAll(t testing.TB, rdb redis.Cmdable, value string) bool {
	return w.succeeds(t, rdb, value, w.take)
}

// holds reports whether the old library has enough keys of a lock with the value.
func (w *oldWay) holds(t testing.TB, rdb redis.Cmdable, value string) bool {
	return w.succeeds(t, rdb, value, w.renew)
}

// succeeds reports whether an operation of the old library succeeds at enough keys.
func (w *oldWay) succeeds(t testing.TB, rdb redis.Cmdable, value string, op func(context.Context, redis.Cmdable, string, string) bool) bool {
	n := 0
	for _, key := range w.keys {
		if op(t.Context(), rdb, key, value) {
			n++
		}
	}
	return n >= w.quorum
}

func (w *oldWay) freeAll(t testing.TB, rdb redis.Cmdable, value string) {
	for _, key := range w.keys {
		w.free(t.Context(), rdb, key, value)
	}
}

// exist returns how many of the old keys exist.
func (w *oldWay) exist(t testing.TB, rdb redis.Cmdable) int {
	n, err := rdb.Exists(t.Context(), w.keys...).Result()
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

func takeString(ctx context.Context, rdb redis.Cmdable, key, value string) bool {
	return rdb.SetNX(ctx, key, value, lease).Val()
}

var compareAndExpire = redis.NewScript(`return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('PEXPIRE', KEYS[1], ARGV[2]) or 0`)

func renewString(ctx context.Context, rdb redis.Cmdable, key, value string) bool {
	return compareAndExpire.Run(ctx, rdb, []string{key}, value, lease.Milliseconds()).Val() == int64(1)
}

var compareAndDelete = redis.NewScript(`return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0`)

func freeString(ctx context.Context, rdb redis.Cmdable, key, value string) bool {
	return compareAndDelete.Run(ctx, rdb, []string{key}, value).Val() == int64(1)
}

// What Redisson does: the field counts how often the thread holds the lock.
var takeRedisson = redis.NewScript(`
if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)

func takeHash(ctx context.Context, rdb redis.Cmdable, key, value string) bool {
	return takeRedisson.Run(ctx, rdb, []string{key}, value, lease.Milliseconds()).Val() == int64(1)
}

var renewRedisson = redis.NewScript(`return redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 and redis.call('PEXPIRE', KEYS[1], ARGV[2]) or 0`)

func renewHash(ctx context.Context, rdb redis.Cmdable, key, value string) bool {
	return renewRedisson.Run(ctx, rdb, []string{key}, value, lease.Milliseconds()).Val() == int64(1)
}

var freeRedisson = redis.NewScript(`
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then return 0 end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', 'redisson_lock__channel:{' .. KEYS[1] .. '}', '0')
return 1`)

func freeHash(ctx context.Context, rdb redis.Cmdable, key, value string) bool {
	return freeRedisson.Run(ctx, rdb, []string{key}, value).Val() == int64(1)
}
