// Package library has one adapter for each way of locking that is compared. All of them use their
// library as its documentation advises; what was chosen, and why, stands in each file.
package library

import (
	"context"
	"time"
)

// A Config is what an adapter needs to know.
type Config struct {
	Addr string // of the Redis server
	// Nodes are the addresses of a Cluster's nodes; none: it is no Cluster. Only lockmw is measured on one.
	Nodes []string
	// Independent are the addresses of servers that know nothing of one another; none: there is one server.
	Independent []string
	// Wait says which kind of waiting the workload is about. Libraries that poll have a setting for
	// it; the others ignore it.
	Wait Wait
	// Index is the number of this process among those of the measurement, from 0.
	Index int
}

// Wait is how long calls wait for a lock.
type Wait string

const (
	// Short waits end soon: the lock changes hands all the time.
	Short Wait = "short"
	// Long waits do not: the lock is held for long, and many wait for it.
	Long Wait = "long"
)

// A Locker takes locks with one library, over connections of its own. Safe for concurrent use.
type Locker interface {
	// Lock waits for key's lock until ctx ends.
	Lock(ctx context.Context, key string) (Hold, error)
	// Close frees what the locker has, its connections included.
	Close() error
}

// A Reader is a Locker that can also lock for reading: its holds of RLock exclude only those of Lock.
type Reader interface {
	Locker
	RLock(ctx context.Context, key string) (Hold, error)
}

// An Announcer is a Locker whose calls each have a ticket in a queue on the server, and can say when they have
// it.
type Announcer interface {
	Locker
	// LockAnnounced calls waiting if it has to wait.
	LockAnnounced(ctx context.Context, key string, waiting func()) (Hold, error)
}

// A Hold is a lock that was acquired. Unlock returns when the lock is free, or certain to become it.
type Hold interface{ Unlock() error }

// A Library is one way of locking.
type Library struct {
	Name string
	// Open connects to the server.
	Open func(Config) (Locker, error)
	// Sends names the commands, other than scripts and those that set up a connection, that the
	// library sends to the server itself. Its scripts must not use them: the server's statistics do
	// not tell one from the other.
	Sends []string
	// Watchdog says that a hold is renewed until it is unlocked, without a goroutine of the caller.
	Watchdog bool
	// Pipelines marks a variant that shares round trips between callers.
	Pipelines bool
	// Wakes says that a waiter is notified when the lock is free, and does not poll.
	Wakes bool
	// Baseline marks what is no lock, but what locks are compared with.
	Baseline bool
	// Ours marks this module's locks; the others are here to be compared with them.
	Ours bool
	// Variant marks another kind of lockmw's lock, which is measured where its price is of interest.
	Variant bool
	// Several marks a lock over independent servers, which is measured only there.
	Several bool
	// Permits marks a semaphore, which is measured only as such: Permits hold a key at a time.
	Permits bool
}

// servers are the addresses of all servers.
func (c Config) servers() []string {
	if c.Independent != nil {
		return c.Independent
	}
	return []string{c.Addr}
}

// lease is how long locks outlive a crash, in all libraries that have a setting for it: the default of lockmw.
const lease = 30 * time.Second

// shortPause is the mean pause between two tries of a poll when waits are short, in all libraries. A shorter one
// loads the server with tries in vain, so that fewer acquisitions are made; with a longer one waiters rarely
// meet, at the price of long waits.
const shortPause = 8 * time.Millisecond

// All returns the libraries in the order in which they are shown.
func All() []Library {
	return []Library{
		lockmwLibrary, lockmwFairLibrary, lockmwRWLibrary, rawLibrary, rawAPLibrary, redsyncLibrary, redislockLibrary, rueidislockLibrary,
		pubsubLibrary, grantLibrary, redlockLibrary, redlockNoTokenLibrary, semaphoreLibrary, slotsLibrary, zsetLibrary,
	}
}
