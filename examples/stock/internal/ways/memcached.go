package ways

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

// byMemcached returns the way with a hand-written Memcached lock.
func byMemcached() []Way {
	return []Way{{Name: "memcached", Does: "add with an expiry, delete", Memcached: true, Open: openMemcached}}
}

// openMemcached uses a lock like version 2 of the Redis locks, in a store that may evict any key at any time.
func openMemcached(e *Env) (Buy, error) {
	seconds := int32(max(1, e.Lease/time.Second)) // the shortest expiry of Memcached
	return simpleLock{
		acquire: func(_ context.Context, c *Call, owner string) (bool, error) {
			err := e.reconnecting(func() error {
				return e.Memcached.Add(&memcache.Item{Key: e.lockKey(c), Value: []byte(owner), Expiration: seconds})
			})
			if errors.Is(err, memcache.ErrNotStored) {
				return false, nil
			}
			return err == nil, err
		},
		release: func(_ context.Context, c *Call, _ string) error {
			err := e.reconnecting(func() error { return e.Memcached.Delete(e.lockKey(c)) })
			if errors.Is(err, memcache.ErrCacheMiss) {
				return nil
			}
			return err
		},
	}.open(e)
}

// reconnecting retries once if the connection broke because the server was restarted.
func (e *Env) reconnecting(do func() error) error {
	err := do()
	if _, broken := errors.AsType[net.Error](err); broken || errors.Is(err, io.EOF) {
		_ = e.Memcached.Close() // closes idle connections
		return do()
	}
	return err
}
