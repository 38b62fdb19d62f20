// Package redlock takes a lock on several independent Redis servers, so that a minority of them may be unreachable: the lock is held
// once a majority of the nodes grants it.
//
//	nodes := []*lockmw.Client{a, b, c} // Clients of three independent servers
//	locks := redlock.New(nodes)
//	ctx, hold, err := locks.Lock(ctx, lockmw.Key("item", id))
//
// A lock on one server is only as available as that server. Here a minority may die, hang or be cut off: holds continue, and new
// ones are granted. A Locker is a lockmw.Locker like the others, with the same re-entry, contexts, watchdog, observers, middleware,
// errors and failing open. There are only exclusive locks. Calls of one process are served in order; processes are not. See
// [docs/redlock.md].
//
// # How it works
//
// A call asks all nodes together, and holds the lock once a majority has granted it. That takes one round trip if no other call
// competes. The hold's deadline is the latest time until which enough nodes keep their grants.
//
// A call that is refused waits in the queue of one node, the same for all calls of the key. When that node hands it the lock, it asks
// the other nodes. A call that cannot reach a majority does not queue, so it cannot block a call that can.
//
// A hold ends when too few nodes have it, not when one node dies. A node that comes back takes part in the holds within about a
// second, even if it has lost its data. docs/redlock.md says how to restart nodes one by one.
//
// Before a hold begins, k nodes (the quorum) have its fencing token, which is greater than the tokens of all earlier holds. Nodes'
// clocks may differ.
//
// # What can go wrong
//
// A server that loses its data can grant a lock again. Two calls may then hold the lock, each at a majority. There are three ways to
// prevent this:
//
//   - Give the nodes' Clients a quarantine (lockmw.WithQuarantine).
//   - Let the servers write each command to disk before they answer (appendfsync always).
//   - Require more nodes (WithQuorum): with k of n nodes, up to 2k-n-1 may lose grants within a lease.
//
// A node whose clock is stepped forward by a lease also loses its grants, and no quarantine helps. As with every lock service, a
// process may be paused between its last check of its context and its write: check the token where you write. docs/redlock.md says
// what is promised when, and when a consensus system such as etcd is the better choice.
//
// # Sources
//
// The algorithm is from the Redis documentation ("Distributed Locks with Redis", with its sections on retries, extending and delayed
// restarts). Its guarantees were disputed by Martin Kleppmann, "How to do distributed locking" (2016), and Salvatore Sanfilippo, "Is
// Redlock safe?" (2016). Rule 24 of docs/protocol.md describes this implementation.
//
// [docs/redlock.md]: https://github.com/lockmw/go/blob/main/docs/redlock.md
package redlock

import (
	"context"
	"log/slog"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inside"
	"github.com/lockmw/go/internal/kinds"
	"github.com/lockmw/go/internal/quorum"
	"github.com/lockmw/go/lockmw"
)

// A Locker takes locks over several nodes. It returns the same errors as lockmw.Client; ErrUnavailable says how many nodes have
// answered. It is safe for concurrent use. Use one Locker per process: several neither re-enter one another's locks nor pass them on
// to one another.
type Locker struct {
	mark
	locker kinds.Locker
	locks  *quorum.Locks
}

type mark = inside.Mark // an alias, so that the documentation shows no fields

var _ lockmw.Locker = (*Locker)(nil)

// New returns a Locker over the servers of the Clients: normally three or five, at most 15. It sends no command. Close the Locker
// before its Clients.
//
// The nodes must be independent servers, neither replicas of one another nor nodes of a Cluster. Each may be a master with Sentinels
// of its own. Give the nodes in the same order in all processes, so that calls for a key queue at the same node. All Clients must
// have the same prefix, lease and quarantine.
//
// The Locker has the options of the first Client; WithOptions takes precedence. Do not also lock a key with the Client of a node: it
// would compete with the Locker.
//
// New panics with an error that wraps lockmw.ErrInvalidOption and says what to do, if
//
//   - there is no node, or more than 15
//   - a node is nil, closed, a Cluster, or given twice
//   - the Clients differ in prefix, lease or quarantine
//   - the quorum is not more than half of the nodes
//   - the lease or a minimum hold is not shorter than the quarantine
//   - an option is nil or invalid
//
// New cannot detect a server that is given twice by different names. Such a server has one vote, because it grants a key once. Calls
// that need its second vote fail with ErrInvalidOption, whose text says so.
func New(nodes []*lockmw.Client, opts ...Option) *Locker {
	l, err := newLocker(nodes, opts)
	if err != nil {
		panic(err)
	}
	return l
}

func newLocker(nodes []*lockmw.Client, opts []Option) (*Locker, error) {
	s := settings{cfg: quorum.Config{
		Tokens: true, NodeTimeout: 500 * time.Millisecond, MinDelay: 10 * time.Millisecond, MaxDelay: 500 * time.Millisecond,
	}}
	for _, o := range opts {
		if o == nil {
			return nil, invalid("a nil Option")
		}
		if err := o(&s); err != nil {
			return nil, err
		}
	}
	engines, err := enginesOf(nodes)
	if err != nil {
		return nil, err
	}
	if err := s.setQuorum(len(nodes)); err != nil {
		return nil, err
	}
	s.cfg.UnlockTimeout = engines[0].Config().UnlockTimeout
	l := &Locker{locks: quorum.New(engines, s.cfg)}
	first, _ := kinds.Of(nodes[0])
	k, err := first.Over(l.locks, core.Kind{Mode: core.Exclusive}, s.options...)
	if err != nil {
		_ = l.locks.Close()
		return nil, err
	}
	l.locker = k.(kinds.Locker)
	l.mark = inside.NewMark(l, l.locker)
	return l, nil
}

// Lock takes the lock. It implements lockmw.Locker.
func (l *Locker) Lock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.made().locker.Lock(ctx, key, opts...)
}

// TryLock is Lock with WithWait(0): it tries once.
func (l *Locker) TryLock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.made().locker.TryLock(ctx, key, opts...)
}

// Logger returns the logger of the first node's Client: see lockmw.Client.
func (l *Locker) Logger() *slog.Logger { return l.made().locker.Logger() }

// Shutdown waits until all holds have ended. New calls and waits fail with ErrClosed, and the watchdog continues to renew leases. If
// ctx ends first, Shutdown returns an error that wraps ctx.Err and says how many holds have not ended. Call Close afterwards.
func (l *Locker) Shutdown(ctx context.Context) error {
	if ctx == nil {
		return invalid("the context is nil")
	}
	return l.made().locks.Shutdown(ctx)
}

// Close ends waits and holds immediately with ErrClosed, and releases the locks. It returns when the Locker's goroutines have ended.
// The nodes' Clients stay open: close them afterwards. A Locker is also closed when all its Clients are closed. Further calls of
// Close do nothing.
//
// Close waits as long as the nodes confirm releases, but not for a node that has confirmed none for 2 s. If a quorum of nodes has not
// confirmed all releases, Close logs how many locks are left and returns an ErrUnavailable with that number. These locks become free
// when their leases expire.
func (l *Locker) Close() error { return l.made().locks.Close() }

// made returns l, and panics if New did not make it.
func (l *Locker) made() *Locker {
	if l == nil || l.locker == nil {
		panic("redlock: the Locker is nil, or was not made by New")
	}
	return l
}
