package migration_test

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis/rueidislock"

	"github.com/lockmw/go/bridge"
	"github.com/lockmw/go/lockmw"
)

// lease is the lease of all holds.
const lease = 2 * time.Second

// A held lock is exclusive until valid; a zero time means until it is released.
type held struct {
	valid   func() time.Time
	release func()
}

// A taker takes a lock. It gives up when ctx ends.
type taker func(ctx context.Context, key string) (held, error)

// A library is the old code, and the bridge from it.
type library struct {
	name     string
	open     func(a address) (taker, error)
	bridge   func(locks lockmw.Locker, rdbs []redis.UniversalClient) *bridge.Locker
	unpaused bool // its holder does not know until when it is exclusive, so it must not be paused
}

var libraries = []library{
	{name: "redsync", open: openRedsync, bridge: func(l lockmw.Locker, rdbs []redis.UniversalClient) *bridge.Locker {
		var more []redis.Scripter
		for _, rdb := range rdbs[1:] {
			more = append(more, rdb)
		}
		return bridge.Redsync(l, rdbs[0], more...)
	}},
	{name: "redislock", open: openRedislock, bridge: func(l lockmw.Locker, rdbs []redis.UniversalClient) *bridge.Locker {
		return bridge.Redislock(l, rdbs[0])
	}},
	{name: "rueidislock", open: openRueidislock, unpaused: true, bridge: func(l lockmw.Locker, rdbs []redis.UniversalClient) *bridge.Locker {
		return bridge.Rueidislock(l, rdbs[0], "", 0)
	}},
	{name: "setnx", open: openSetNX, bridge: func(l lockmw.Locker, rdbs []redis.UniversalClient) *bridge.Locker {
		return bridge.SetNX(l, rdbs[0], func(key string) string { return "old:" + key })
	}},
	{name: "redisson", open: openRedisson, bridge: func(l lockmw.Locker, rdbs []redis.UniversalClient) *bridge.Locker {
		return bridge.Redisson(l, rdbs[0])
	}},
}

// Stages of the move.
const (
	old  = "old"
	both = "both" // a bridge
	done = "new"  // lockmw alone
)

func libraryOf(name string) *library {
	return &libraries[slices.IndexFunc(libraries, func(l library) bool { return l.name == name })]
}

// locker returns the Locker of a process in a stage after the old one.
func (l *library) locker(stage string, a address) (lockmw.Locker, error) {
	rdbs := a.clients()
	c, err := lockmw.New(rdbs[0])
	if err != nil || stage == done {
		return c, err
	}
	return l.bridge(c, rdbs), nil
}

// taker returns the taker of a process in that stage.
func (l *library) taker(stage string, a address) (taker, error) {
	if stage == old {
		return l.open(a)
	}
	locks, err := l.locker(stage, a)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, key string) (held, error) {
		_, hold, err := locks.Lock(ctx, key, lockmw.WithLease(lease))
		if err != nil {
			return held{}, err
		}
		return held{hold.Deadline, func() { _ = hold.Unlock() }}, nil
	}, nil
}

func openRedsync(a address) (taker, error) {
	var pools []redsyncredis.Pool
	for _, rdb := range a.clients() {
		pools = append(pools, goredis.NewPool(rdb))
	}
	rs := redsync.New(pools...)
	return func(ctx context.Context, key string) (held, error) {
		m := rs.NewMutex(key, redsync.WithExpiry(lease), redsync.WithTries(math.MaxInt))
		if err := m.LockContext(ctx); err != nil {
			return held{}, err
		}
		return held{m.Until, func() { _, _ = m.Unlock() }}, nil
	}, nil
}

func openRedislock(a address) (taker, error) {
	client := redislock.New(a.client())
	return func(ctx context.Context, key string) (held, error) {
		var until time.Time
		for {
			until = time.Now().Add(lease)
			l, err := client.Obtain(ctx, key, lease, nil)
			if err == nil {
				return held{func() time.Time { return until }, func() { _ = l.Release(context.WithoutCancel(ctx)) }}, nil
			}
			if !errors.Is(err, redislock.ErrNotObtained) || !rest(ctx) {
				return held{}, err
			}
		}
	}, nil
}

func openRueidislock(a address) (taker, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: a.rueidis(), KeyValidity: lease, NoLoopTracking: true, TryNextAfter: time.Second,
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, key string) (held, error) {
		for {
			// TryWithContext: a waiting WithContext misses the release of a holder on a busy machine. The hold would end with ctx.
			_, cancel, err := locker.TryWithContext(context.WithoutCancel(ctx), key)
			if err == nil {
				return held{func() time.Time { return time.Time{} }, cancel}, nil
			}
			if !rest(ctx) {
				return held{}, err
			}
		}
	}, nil
}

var (
	freeSetNX = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

	takeRedisson = redis.NewScript(`
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
return 0`)
	freeRedisson = redis.NewScript(`
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then return 0 end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', 'redisson_lock__channel:{' .. KEYS[1] .. '}', '0')
return 1`)
)

func openSetNX(a address) (taker, error) {
	rdb := a.client()
	return polling(func(ctx context.Context, key, value string) (bool, error) {
		return rdb.SetNX(ctx, "old:"+key, value, lease).Result()
	}, func(ctx context.Context, key, value string) error {
		return freeSetNX.Run(ctx, rdb, []string{"old:" + key}, value).Err()
	}), nil
}

func openRedisson(a address) (taker, error) {
	rdb := a.client()
	return polling(func(ctx context.Context, key, value string) (bool, error) {
		return takeRedisson.Run(ctx, rdb, []string{key}, value, lease.Milliseconds()).Bool()
	}, func(ctx context.Context, key, value string) error {
		return freeRedisson.Run(ctx, rdb, []string{key}, value).Err()
	}), nil
}

func polling(take func(ctx context.Context, key, value string) (bool, error), free func(ctx context.Context, key, value string) error) taker {
	return func(ctx context.Context, key string) (held, error) {
		for {
			value, until := rand.Text(), time.Now().Add(lease)
			ok, err := take(ctx, key, value)
			if ok && err == nil {
				return held{func() time.Time { return until }, func() { _ = free(context.WithoutCancel(ctx), key, value) }}, nil
			}
			if !rest(ctx) {
				return held{}, ctx.Err()
			}
		}
	}
}

// rest pauses between two tries of the old code.
func rest(ctx context.Context) bool {
	select {
	case <-time.After(20 * time.Millisecond):
		return true
	case <-ctx.Done():
		return false
	}
}
