package library

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

var redsyncLibrary = Library{Name: "redsync", Open: openRedsync, Sends: []string{"set"}}

// redsyncLocker uses redsync on one node, or on several, with a Mutex for each acquisition, as its README does. The default of
// 32 tries is lifted, so that only the context ends a wait. It waits for all nodes, which is the default: with WithFailFast a
// release may overtake a request to the slowest node, whose key then stays taken until it expires.
type redsyncLocker struct {
	rdbs    []*redis.Client
	rs      *redsync.Redsync
	options []redsync.Option
}

func openRedsync(c Config) (Locker, error) {
	l := &redsyncLocker{options: []redsync.Option{redsync.WithExpiry(c.leaseOf()), redsync.WithTries(math.MaxInt)}}
	var pools []redsyncredis.Pool
	for _, addr := range c.servers() {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		l.rdbs = append(l.rdbs, rdb)
		pools = append(pools, goredis.NewPool(rdb))
	}
	l.rs = redsync.New(pools...)
	if c.Wait != Long {
		// The default, 50 to 250 ms at random, is for locks that are held for a while.
		l.options = append(l.options, redsync.WithRetryDelayFunc(func(int) time.Duration {
			return rand.N(2 * shortPause)
		}))
	}
	return l, nil
}

// Lock implements Locker.
func (l *redsyncLocker) Lock(ctx context.Context, key string) (Hold, error) {
	m := l.rs.NewMutex(key, l.options...)
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	return redsyncHold{m}, nil
}

// Close implements Locker.
func (l *redsyncLocker) Close() error {
	var all error
	for _, rdb := range l.rdbs {
		all = errors.Join(all, rdb.Close())
	}
	return all
}

type redsyncHold struct{ m *redsync.Mutex }

// Unlock implements Hold.
func (h redsyncHold) Unlock() error {
	ok, err := h.m.Unlock()
	if err == nil && !ok {
		err = errors.New("redsync: not unlocked")
	}
	return err
}
