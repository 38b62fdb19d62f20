// Package quorum implements a lock that is held by a majority of several independent nodes (rule 24 of docs/protocol.md). Each
// node has its own engine, which grants, renews and loses its part. One lock travels through the files in this order:
//
//	quorum.go     Acquire finds the entry of the key
//	entry.go      callers of this process queue there; one bid at a time is made for them
//	bid.go        a bid asks the nodes
//	phase.go      the next steps of a bid without a majority
//	absence.go    the error if too few nodes answer
//	vote.go       the request of a bid at one node
//	token.go      the token of a hold, the proposed token, and the counters of the nodes
//	lease.go      the lease at a majority of the nodes, and how it is passed on within the process
//	hold.go       one caller's turn with a lease
//	extend.go     extends a lease at a majority of its nodes
//	release.go    ends a lease
//	join.go       adds a node to a lease
//	node.go       a node, and whether it answers
//	probe.go      asks nodes whether they answer
//	verify.go     raises the counters of nodes that may have lost tokens, and of new nodes, before they count
//	worker.go     goroutines that send requests
//	close.go      Shutdown and Close
//
// The mutex of Locks guards the state of all of them. It is never held during a wait or a callback.
package quorum

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/engine"
	"github.com/lockmw/go/internal/localq"
	"github.com/lockmw/go/internal/transport"
)

// A Config contains the settings of New.
type Config struct {
	Quorum        int           // how many nodes must grant a lock
	Tokens        bool          // holds have fencing tokens
	NodeTimeout   time.Duration // how long a node may take to answer
	MinDelay      time.Duration // shortest random pause between two failed bids
	MaxDelay      time.Duration // upper limit of that pause, which doubles up to it
	UnlockTimeout time.Duration // how long a release may take to be confirmed
}

// Locks implements core.Locks over several engines.
type Locks struct {
	cfg   Config
	nodes []*node

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // counts all goroutines

	work      chan func()         // for idle goroutines
	idle      atomic.Int64        // number of idle goroutines
	idleTimes *transport.Timeouts // how long they stay idle

	mu      sync.Mutex
	entries map[string]*entry
	leases  map[*lease]struct{}
	clock   tokenClock
	prober  prober
	closing bool
	closed  bool
	holds   *localq.Holds

	selfWaits *transport.Timeouts // when waits are checked for self-waits
	releases  *transport.Timeouts // how long releases wait for their confirmation

	stopWatching []func() bool
}

// New returns Locks. It sends no commands. There must be at least one engine, and the quorum must be more than half of them.
func New(engines []*engine.Engine, cfg Config) *Locks {
	l := &Locks{cfg: cfg, entries: make(map[string]*entry), leases: make(map[*lease]struct{}), holds: localq.NewHolds()}
	l.ctx, l.cancel = context.WithCancel(background)
	l.work, l.idleTimes = make(chan func()), transport.NewTimeouts(l.ctx, idleTime, idleTime/4)
	l.selfWaits = transport.NewTimeouts(background, core.SelfWaitAfter+core.SelfWaitAfter/4, core.SelfWaitAfter/4)
	l.releases = transport.NewTimeouts(background, cfg.UnlockTimeout, cfg.UnlockTimeout/8)
	for i, e := range engines {
		l.nodes = append(l.nodes, newNode(l, i, e))
		if len(engines) > 1 {
			e.SetMultiNode()
		}
	}
	l.clock.base = time.Now()
	l.watchNodes()
	return l
}

// Acquire implements core.Locks.
func (l *Locks) Acquire(ctx context.Context, r *core.Request) (core.Hold, error) {
	if err := l.CheckTimes(r.Lease, r.MinHold); err != nil {
		return nil, &core.AcquireError{Err: err}
	}
	w := localq.NewWaiter(ctx, r, clock.Now())
	l.mu.Lock()
	if l.closing {
		l.mu.Unlock()
		return nil, &core.AcquireError{Err: core.ErrClosed}
	}
	e := l.entry(r.Key)
	if err := e.enqueue(w); err != nil {
		e.removeIfIdle()
		l.mu.Unlock()
		return nil, err
	}
	holders, held := e.knownHolders()
	w.Notified = held && len(holders) > 0
	notify := w.Notified
	e.start()
	l.mu.Unlock()
	if notify {
		r.Events.Contended(core.Wait{Holders: holders})
	}
	var stalled <-chan struct{}
	if r.Wait > core.SelfWaitAfter {
		stalled = l.selfWaits.Next(w.Began).Done()
	}
	return w.Await(e, stalled, nil)
}

// entry returns the entry of a key, and makes it if there is none.
func (l *Locks) entry(key string) *entry {
	e := l.entries[key]
	if e == nil {
		e = &entry{l: l, key: key}
		l.entries[key] = e
	}
	return e
}

// unlockAndNotify unlocks the mutex, and then calls notify if it is not nil.
func (l *Locks) unlockAndNotify(notify func()) {
	l.mu.Unlock()
	if notify != nil {
		notify()
	}
}

// majority reports whether enough nodes have answered within the last second. Without them, a call neither queues nor keeps a
// node.
func (l *Locks) majority(now time.Time) bool {
	return l.isQuorumWithout(func(n *node) bool { return !n.answers(now) })
}

var _ core.LimitedLocks = (*Locks)(nil)

// CheckTimes implements core.LimitedLocks. It refuses times that any node refuses, because each node grants a hold of its own.
func (l *Locks) CheckTimes(lease, minHold time.Duration) error {
	for _, n := range l.nodes {
		if err := n.engine.CheckTimes(lease, minHold); err != nil {
			return err
		}
	}
	return nil
}
