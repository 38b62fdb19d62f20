package library

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

var redislockLibrary = Library{Name: "redislock", Open: openRedislock}

// redislockLocker uses one redislock client. Obtain gives up after the lock's TTL unless the context has a deadline, as in its
// example of a custom deadline; the contexts of the workloads have one.
type redislockLocker struct {
	rdb    *redis.Client
	client *redislock.Client
	retry  func() redislock.RetryStrategy // strategies that count must not be shared
}

func openRedislock(c Config) (Locker, error) {
	rdb := redis.NewClient(&redis.Options{Addr: c.Addr})
	l := &redislockLocker{rdb: rdb, client: redislock.New(rdb)}
	if c.Wait == Long {
		// The strategy of its example of an Obtain with retries.
		l.retry = func() redislock.RetryStrategy { return redislock.LinearBackoff(100 * time.Millisecond) }
	} else {
		l.retry = func() redislock.RetryStrategy { return redislock.LinearBackoff(shortPause) }
	}
	return l, nil
}

// Lock implements Locker.
func (l *redislockLocker) Lock(ctx context.Context, key string) (Hold, error) {
	lock, err := l.client.Obtain(ctx, key, lease, &redislock.Options{RetryStrategy: l.retry()})
	if err != nil {
		return nil, err
	}
	return redislockHold{lock}, nil
}

// Close implements Locker.
func (l *redislockLocker) Close() error { return l.rdb.Close() }

type redislockHold struct{ lock *redislock.Lock }

// Unlock implements Hold.
func (h redislockHold) Unlock() error { return h.lock.Release(context.Background()) }
