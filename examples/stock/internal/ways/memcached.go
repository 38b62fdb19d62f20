package ways

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

// byMemcached is the lock that people write with Memcached.
func byMemcached() []Way {
	return []Way{{Name: "memcached", Does: "add with an expiry, delete", Memcached: true, Open: openMemcached}}
}

// openMemcached has a lock like version 2 of Redis', in a store that may forget anything at any time.
func openMemcached(e *Env) (Buy, error) {
	seconds := int32(max(1, e.Lease/time.Second)) // it knows no shorter times
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

// reconnecting does it once more if the connection was that to a server that has been restarted.
func (e *Env) reconnecting(do func() error) error {
	err := do()
	if _, broken := errors.AsType[net.Error](err); broken || errors.Is(err, io.EOF) {
		_ = e.Memcached.Close() // the connections that wait for use
		return do()
	}
	return err
}
