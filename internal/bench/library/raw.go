package library

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	mathrand "math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

var rawLibrary = Library{Name: "raw", Open: openRaw, Sends: []string{"set"}}

// releaseScript is from the Redis documentation's page on distributed locks.
var releaseScript = redis.NewScript(
	`if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`)

// raw is the textbook lock: SET NX PX with a random value, and a script that deletes the key if it still has that value. It has
// no watchdog and no queue; a waiter tries again.
type raw struct {
	client redis.Cmdable
	close  func() error
	most   time.Duration // between two tries
}

func openRaw(c Config) (Locker, error) {
	rdb := redis.NewClient(&redis.Options{Addr: c.Addr})
	return &raw{client: rdb, close: rdb.Close, most: mostBackoff(c.Wait)}, nil
}

// mostBackoff bounds the pause between two tries. Short waits try often.
func mostBackoff(w Wait) time.Duration {
	if w == Long {
		return 250 * time.Millisecond
	}
	return 2 * shortPause // pauses are random, from 0 to this
}

// Lock implements Locker. It pauses between two tries for a random time under a limit that doubles from 1 ms, so that waiters
// spread out.
func (l *raw) Lock(ctx context.Context, key string) (Hold, error) {
	random := make([]byte, 16)
	_, _ = rand.Read(random) // never fails
	h := &rawHold{l: l, key: key, value: hex.EncodeToString(random)}
	for limit := time.Millisecond; ; limit = min(2*limit, l.most) {
		taken, err := l.client.SetNX(ctx, key, h.value, lease).Result()
		if err != nil {
			return nil, err
		}
		if taken {
			return h, nil
		}
		if err := Pause(ctx, mathrand.N(limit)); err != nil {
			return nil, err
		}
	}
}

// Close implements Locker.
func (l *raw) Close() error { return l.close() }

type rawHold struct {
	l          *raw
	key, value string
}

var errNotHeld = errors.New("the lock is no longer held")

// Unlock implements Hold.
func (h *rawHold) Unlock() error {
	n, err := releaseScript.Run(context.Background(), h.l.client, []string{h.key}, h.value).Int()
	if err == nil && n != 1 {
		err = errNotHeld
	}
	return err
}

// Pause returns after d, or with the context's error when the context ends.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
