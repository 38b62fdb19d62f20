// Package bridge moves a service from another Redis lock to lockmw without a moment in which two processes hold the same lock.
// It knows redsync, redislock, rueidislock, Redisson, and locks made with SET NX.
//
//	locks := bridge.Redsync(client, rdb) // client is a *lockmw.Client
//	ctx, hold, err := locks.Lock(ctx, "item:7")
//
// A hold of a bridge is a lock of lockmw and, below it, the key that the old library would have: the old key. So it excludes
// processes that still run the old code, and processes that use lockmw alone. You deploy twice:
//
//  1. Replace the old library by a bridge. Old processes and new ones meet at the old key.
//  2. When no process with the old code is left, replace the bridge by its Client. Bridges and Clients meet at the lock of lockmw.
//
// A bridge is a lockmw.Locker. Middleware, options, observers, nested calls and Once work as with the Client. See
// [docs/migrating.md] for the calls of each library and their replacements.
//
// # How it works
//
// A call takes the lock of lockmw first, and then polls the old key. So at most one call of all bridges polls a key, and since
// all take them in this order, no two wait for each other. Both are renewed. The hold ends when either is lost, and its deadline
// is the earlier one. Unlock deletes the old key, if it still has the hold's own random value, and then releases the lock.
//
// An error about the old key wraps an *OldKeyError, and an error about the lock of lockmw does not.
//
// # What can go wrong
//
// The old key is no safer than it was. It can be lost in a failover, by eviction, or by a FLUSHDB. Old code that overwrites or
// re-creates a lost key also takes it from its holder: rueidislock with ForceWithContext, redsync with
// WithSetNXOnExtend, and Redisson with forceUnlock. The hold of a bridge then ends at its next renewal, a third of its lease later
// at most.
//
// Old code has no fencing tokens. So tokens order the writes of bridges and Clients, but not the writes of old code.
//
// If a process crashes, its old key expires after its lease, which is the lease of the hold: 30 s unless WithLease sets it. If the
// connection breaks while the server deletes the old key, Unlock repeats the command, and then reports no loss: the key is gone,
// or has its next holder. If the server does not answer in time, Unlock fails, and the old key is deleted in the background.
//
// [docs/migrating.md]: https://github.com/lockmw/go/blob/main/docs/migrating.md
package bridge

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inside"
	"github.com/lockmw/go/internal/kinds"
	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
)

// A Locker takes locks together with their old keys. It returns the same errors as the Locker that it was made of. It is safe for
// concurrent use. Use one Locker for all calls of a process: several do not re-enter one another's locks.
type Locker struct {
	mark
	locker kinds.Locker
	locks  *locks
}

type mark = inside.Mark // an alias, so that the documentation shows no fields

var _ lockmw.Locker = (*Locker)(nil)

// Redsync returns a Locker whose old keys are the mutexes of redsync, and of gocron-redis-lock: a key is the name of the mutex.
// For a redsync with several pools, more has the clients of the others: a hold then needs the keys of a majority of these servers.
//
// locks is the Client, or a fairlock.Locker of it, and rdb a client of the Redis, Sentinel or Cluster of the old keys, which may be
// another one. Redsync sends no command. It panics if locks is nil or was not made by its constructor, if its holds do not exclude
// one another, or if rdb is nil. That applies to all constructors.
func Redsync(locks lockmw.Locker, rdb redis.Scripter, more ...redis.Scripter) *Locker {
	return newLocker(locks, single("redsync", sameKey, onString), append([]redis.Scripter{rdb}, more...)...)
}

// Redislock returns a Locker whose old keys are the locks of github.com/bsm/redislock: a key is the key of Obtain.
func Redislock(locks lockmw.Locker, rdb redis.Scripter) *Locker {
	return newLocker(locks, single("redislock", sameKey, onString), rdb)
}

// Rueidislock returns a Locker whose old keys are the locks of rueidislock: a key is the name of the lock. prefix is KeyPrefix and
// majority is KeyMajority of its LockerOption. "" and 0 mean the defaults, "rueidislock" and 2.
func Rueidislock(locks lockmw.Locker, rdb redis.Scripter, prefix string, majority int) *Locker {
	if prefix == "" {
		prefix = "rueidislock"
	}
	if majority <= 0 {
		majority = 2
	}
	return newLocker(locks, majorityOf(prefix, majority), rdb)
}

// Redisson returns a Locker whose old keys are the locks of Redisson's getLock: a key is the name of the lock. Calls of Redisson
// that wait are woken when a hold is unlocked. Fair, read-write, spin and multi-locks of Redisson are not supported.
func Redisson(locks lockmw.Locker, rdb redis.Scripter) *Locker {
	return newLocker(locks, single("Redisson", sameKey, onHash), rdb)
}

// SetNX returns a Locker whose old keys are strings that exist while a lock is held, as code makes them with SET NX. keyOf returns
// the old key of a key of lockmw. It must be safe for concurrent use, and panics if it is nil.
//
// It is also for redsync and redislock if the names of the old locks differ from the new keys.
func SetNX(locks lockmw.Locker, rdb redis.Scripter, keyOf func(key string) string) *Locker {
	option.NotNil(keyOf, "bridge: keyOf is nil")
	return newLocker(locks, single("SET NX", keyOf, onString), rdb)
}

func newLocker(l lockmw.Locker, lib library, servers ...redis.Scripter) *Locker {
	option.NotNil(l, "bridge: the Locker is nil")
	for _, rdb := range servers {
		option.NotNil(rdb, "bridge: the redis client is nil")
	}
	of, ok := kinds.Of(l)
	if !ok {
		panic(fmt.Errorf("%w: bridge: the %T was not made by its constructor", lockmw.ErrInvalidOption, l))
	}
	if mode := of.Kind().Mode; mode != core.Exclusive && mode != core.Fair {
		panic(fmt.Errorf("%w: bridge: an old key has one holder, and locks of mode %v may have several", lockmw.ErrInvalidOption, mode))
	}
	made := &Locker{locks: &locks{inner: of.Locks(), lib: lib, servers: servers}}
	made.locks.closed, made.locks.end = context.WithCancel(context.Background())
	k, err := of.Over(made.locks, of.Kind())
	if err != nil {
		panic(err)
	}
	made.locker = k.(kinds.Locker)
	made.mark = inside.NewMark(made, made.locker)
	return made
}

// Lock takes the lock and the old key. It implements lockmw.Locker.
func (l *Locker) Lock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.made().locker.Lock(ctx, key, opts...)
}

// TryLock is Lock with WithWait(0): it tries once.
func (l *Locker) TryLock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.made().locker.TryLock(ctx, key, opts...)
}

// Logger returns the logger of the Client: see lockmw.Client.
func (l *Locker) Logger() *slog.Logger { return l.made().locker.Logger() }

// OldKeyBusy returns how many calls so far have had the lock of lockmw and found the old key taken, each counted once. While old
// code runs it rises, so it is a metric to watch before the bridges are replaced. It also counts calls that wait for the old key of
// a bridge that has crashed.
func (l *Locker) OldKeyBusy() int64 { return l.made().locks.oldKeyBusy.Load() }

// Close returns when the old keys of holds that have ended are released, which takes at most 2 s after the last of them. Close the
// Client first: that ends all holds. Without Close, an old key may be left until its lease expires.
func (l *Locker) Close() { l.made().locks.close() }

// made returns l, and panics if no constructor has made it.
func (l *Locker) made() *Locker {
	if l == nil || l.locker == nil {
		panic("bridge: the Locker is nil, or was not made by its constructor")
	}
	return l
}
