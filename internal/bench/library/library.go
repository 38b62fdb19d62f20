// Package library has an adapter for each way of locking that is compared. Each one uses its library as the documentation
// advises; the file explains the choices.
package library

import (
	"cmp"
	"context"
	"net"
	"time"

	"github.com/lockmw/go/internal/bench/server"
)

// A Config configures an adapter.
type Config struct {
	Addr string // of the Redis server
	// Nodes are the addresses of a Cluster's nodes; none: there is no Cluster. Only lockmw is measured on one.
	Nodes []string
	// Independent are the addresses of servers that do not know one another; none: there is one server.
	Independent []string
	// Wait is the kind of waiting in the workload. Libraries that poll have a setting for it; the others ignore it.
	Wait Wait
	// Index is the number of this process in the measurement, from 0.
	Index int
	// Lease is how long locks outlive a crash; 0: 30 s. Only adapters for idempotent calls and redsync have a setting for it.
	Lease time.Duration
	// Dial makes the connections of lockmw; nil: undisturbed ones.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error) `json:"-"`
}

// Wait is the length of waits for a lock.
type Wait string

const (
	// Short waits end soon: the lock changes hands constantly.
	Short Wait = "short"
	// Long waits do not: the lock is held for a long time while many wait.
	Long Wait = "long"
)

// A Locker takes locks with one library, over its own connections. It is safe for concurrent use.
type Locker interface {
	// Lock waits for key's lock until ctx ends.
	Lock(ctx context.Context, key string) (Hold, error)
	// Close releases the locker's resources, including its connections.
	Close() error
}

// A Reader is a Locker that can also lock for reading. Holds of RLock exclude only holds of Lock.
type Reader interface {
	Locker
	RLock(ctx context.Context, key string) (Hold, error)
}

// An Announcer is a Locker whose calls have tickets in a queue on the server, and can report that they are queued.
type Announcer interface {
	Locker
	// LockAnnounced calls waiting if it has to wait.
	LockAnnounced(ctx context.Context, key string, waiting func()) (Hold, error)
}

// A Hold is an acquired lock. Unlock returns when the lock is free, or certain to become free.
type Hold interface{ Unlock() error }

// A Library is one way of locking.
type Library struct {
	Name string
	// Open connects to the server.
	Open func(Config) (Locker, error)
	// Sends names the commands that the library sends to the server itself, except scripts and commands that set up a
	// connection. Its scripts must not use them, because the server's statistics do not tell one from the other.
	Sends []string
	// SentByScripts names the exceptions: commands in Sends that each run of a script also sends once.
	SentByScripts []string
	// Watchdog means that a hold is renewed until it is unlocked, without a goroutine of the caller.
	Watchdog bool
	// Pipelines marks a variant that shares round trips between callers.
	Pipelines bool
	// Wakes means that a waiter is notified when the lock is free, and does not poll.
	Wakes bool
	// Baseline marks an adapter that neither locks nor claims keys, with which the others are compared.
	Baseline bool
	// Ours marks this module's locks.
	Ours bool
	// Variant marks another kind of lockmw's lock, which is measured only in some workloads.
	Variant bool
	// Several marks a lock over independent servers, which is measured only on such servers.
	Several bool
	// Permits marks a semaphore, which is measured only as such: Permits calls hold a key at a time.
	Permits bool
	// Calls opens an adapter for idempotent calls; nil: it locks. Only Open or Calls is set.
	Calls func(Config, Work) (Caller, error)
}

// Sent returns how many commands the library has sent to the server. A script counts as one.
func (l Library) Sent(s server.Stats) int64 {
	scripts := s.Calls["eval"] + s.Calls["evalsha"]
	return s.Sent(l.Sends) - scripts*int64(len(l.SentByScripts))
}

// Locks reports whether the library has a lock that one call at a time holds.
func (l Library) Locks() bool { return !l.Baseline && !l.Permits && l.Calls == nil }

// servers returns the addresses of all servers.
func (c Config) servers() []string {
	if c.Independent != nil {
		return c.Independent
	}
	return []string{c.Addr}
}

// lease is how long locks outlive a crash, in all libraries with a setting for it: lockmw's default.
const lease = 30 * time.Second

// leaseOf returns the lease of adapters that have a setting for it.
func (c Config) leaseOf() time.Duration { return cmp.Or(c.Lease, lease) }

// shortPause is the mean pause between two tries of a poll when waits are short, in all libraries. A shorter pause loads the
// server with failed tries, so that fewer acquisitions succeed; with a longer one waiters rarely meet, but waits are long.
const shortPause = 8 * time.Millisecond

// All returns the libraries in display order.
func All() []Library {
	return []Library{
		lockmwLibrary, lockmwFairLibrary, lockmwRWLibrary, rawLibrary, rawAPLibrary, redsyncLibrary, redislockLibrary, rueidislockLibrary,
		pubsubLibrary, grantLibrary, redlockLibrary, redlockNoTokenLibrary, semaphoreLibrary, slotsLibrary, zsetLibrary,
		onceLibrary, onceHTTPLibrary, setnxLibrary, getLibrary, fiberLibrary, fiberRedsyncLibrary, cacheLibrary, bareHTTPLibrary, bareFiberLibrary,
	}
}
