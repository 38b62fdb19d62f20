// Package redlock is a lock over several independent Redis servers: who has it at most of them has it.
//
//	nodes := []*lockmw.Client{a, b, c} // of three servers that know nothing of one another
//	locks := redlock.New(nodes)
//	ctx, hold, err := locks.Lock(ctx, lockmw.Key("item", id))
//
// A lock on one server is as available as that server. Here a minority may die, hang or be cut off: holds go on, and new ones
// are granted. It is a lockmw.Locker like the others: re-entry, contexts, watchdog, observers, middleware and failing open
// are the same, and so are the errors. There is one mode, which excludes everybody; calls of one process are served in their
// order, those of several processes are not.
//
// # How it works
//
// A call asks all nodes at once, and has the lock when most of them have granted it: in one round trip, if nobody is in the
// way. Its deadline is the latest one until which enough nodes have it. If it is refused, it waits in the queue of one node,
// the same for all calls of the key, and asks the others when that one hands it over. Nobody waits in a queue who does not
// reach most of the nodes, so that he holds up nobody who does. A hold is over when too few nodes have it, and not when one
// of them dies. One that comes back takes part again within about a second, also if it has lost its data; docs/redlock.md says
// how nodes are restarted one by one.
//
// The token of a hold is one that k nodes know of before the hold begins, and greater than those of all earlier holds: the
// nodes' clocks may differ.
//
// # What can go wrong
//
// A server that forgets what it has granted can grant it again: two calls then have the lock, each at a majority. So give the
// nodes' Clients a quarantine (lockmw.WithQuarantine), or have the servers write each command to their disks before they
// answer (appendfsync always), or demand more nodes (WithQuorum): with k of n, 2k-n-1 may forget. A clock that is stepped
// forward by a lease forgets, too. And a process may be paused between its last look at its context and its write, as with
// every lock service: check the token where the write happens. docs/redlock.md says what is promised when, and when a
// consensus system such as etcd is the better choice.
//
// The idea is from the Redis documentation ("Distributed Locks with Redis", with its sections on retries, extending and
// delayed restarts). What it does and does not promise was argued by Martin Kleppmann, "How to do distributed locking"
// (2016), and Salvatore Sanfilippo, "Is Redlock safe?" (2016). Rule 24 of docs/protocol.md is what is done here.
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

// A Locker takes locks over several nodes. Its errors are those of lockmw.Client; ErrUnavailable says how many nodes have
// answered. Safe for concurrent use. One Locker per process is enough: several do not re-enter one another's locks, and do
// not pass them on to one another.
type Locker struct {
	mark
	locker kinds.Locker
	locks  *quorum.Locks
}

type mark = inside.Mark // an alias, so that the documentation shows no fields

var _ lockmw.Locker = (*Locker)(nil)

// New returns a Locker over the locks of the nodes' Clients. It sends nothing then. The nodes should be given in the same
// order in all processes: calls for a key wait for each other at the same one then. They are independent servers: no
// replicas of one another, and no nodes of a Cluster. A node may be a master that Sentinels name.
//
// The Locker has the options of the first Client, and WithOptions takes precedence. The other Clients must have the same
// prefix, lease and quarantine. A key should not be locked by a node's Client itself as well: that is one more contender.
//
// New panics if that cannot work, with an error that wraps lockmw.ErrInvalidOption and says what to do: there is no node, one is nil or closed or given twice, one is
// a Cluster, they differ in what has to be the same, the quorum is not more than half of them, or the lease is no shorter than
// the quarantine of the nodes. A server that is given
// twice by different names has one vote all the same, as it grants a key once; calls that need its second vote fail with
// ErrInvalidOption, and say so.
func New(nodes []*lockmw.Client, opts ...Option) *Locker {
	l, err := newLocker(nodes, opts)
	if err != nil {
		panic(err)
	}
	return l
}

func newLocker(nodes []*lockmw.Client, opts []Option) (*Locker, error) {
	s := settings{cfg: quorum.Config{
		Tokens: true, Limit: 500 * time.Millisecond, MinDelay: 10 * time.Millisecond, MaxDelay: 500 * time.Millisecond,
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
	s.cfg.Unlock = engines[0].Config().Unlock
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

// Lock implements lockmw.Locker.
func (l *Locker) Lock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.made().locker.Lock(ctx, key, opts...)
}

// TryLock is Lock with WithWait(0).
func (l *Locker) TryLock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.made().locker.TryLock(ctx, key, opts...)
}

// Logger returns the logger of the first node's Client: see lockmw.Client.
func (l *Locker) Logger() *slog.Logger { return l.made().locker.Logger() }

// Shutdown refuses new locks with ErrClosed, ends waits with it, and returns when all holds have ended or ctx does. In the second
// case its error wraps ctx.Err and says how many holds have not ended. Meanwhile the watchdog renews leases. Call Close afterwards.
func (l *Locker) Shutdown(ctx context.Context) error {
	if ctx == nil {
		return invalid("the context is nil")
	}
	return l.made().locks.Shutdown(ctx)
}

// Close ends everything now: waits and holds end with ErrClosed, and the locks are released. It returns when the Locker's
// goroutines have ended. It continues for as long as the nodes confirm releases, and stops waiting for a node that has confirmed
// none for 2 s. If a quorum of nodes has not confirmed all releases, Close logs how many locks are left, and returns an
// ErrUnavailable with that number. These locks become free when their leases expire. The nodes' Clients stay open: close them after it. A Locker whose Clients are all closed is closed,
// too. Further calls of Close do nothing.
func (l *Locker) Close() error { return l.made().locks.Close() }

// made returns l.
func (l *Locker) made() *Locker {
	if l == nil || l.locker == nil {
		panic("redlock: the Locker is nil, or was not made by New")
	}
	return l
}
