// Package quorum implements a lock that is had by who has it at most of several independent nodes (rule 24 of
// docs/protocol.md). Each node has an engine of its own, which grants, renews and loses its part. One lock travels through the
// files in this order:
//
//	quorum.go     Acquire finds the entry of the key
//	entry.go      callers of this process queue there; one bid at a time is made for them
//	bid.go        a bid asks the nodes
//	phase.go      what a bid does when it has not got most of them
//	absence.go    too few nodes answer, and why
//	vote.go       what became of it at one node
//	token.go      which token a hold has, which one to propose, and that enough nodes know it
//	lease.go      what most nodes have granted, and how it is passed on within the process
//	hold.go       one caller's turn with a lease
//	extend.go     a lease is extended at a majority of its nodes
//	release.go    a lease ends
//	join.go       a node that comes back takes part in a lease again
//	node.go       a node, and whether it answers
//	probe.go      asks nodes whether they answer
//	trust.go      a node that may have forgotten tokens is raised before it counts, and so are new nodes
//	worker.go     goroutines that send requests
//	close.go      Shutdown and Close
//
// The mutex of Locks guards the state of all of them. It is not held while anything waits, and no callback is called with it.
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

// A Config is what New needs to know.
type Config struct {
	Quorum   int           // how many nodes have to grant a lock
	Tokens   bool          // holds have fencing tokens
	Limit    time.Duration // how long a node may take to answer
	MinDelay time.Duration // between two bids that came to nothing, at random
	MaxDelay time.Duration // doubles up to there
	Unlock   time.Duration // how long a release may take to be confirmed
}

// Locks implements core.Locks over several engines.
type Locks struct {
	cfg   Config
	nodes []*node

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // of all goroutines

	work      chan func()         // for goroutines that are idle
	idle      atomic.Int64        // how many are
	idleTimes *transport.Timeouts // until when they are

	mu      sync.Mutex
	entries map[string]*entry
	leases  map[*lease]struct{}
	clock   tokenClock
	prober  prober
	closing bool
	closed  bool
	holds   *localq.Holds

	stalls   *transport.Timeouts // for waits that are to be looked at
	releases *transport.Timeouts // for the confirmation of releases

	closedByNodes atomic.Bool // all engines are closed
	stopWatching  []func() bool
}

// New returns Locks that have sent nothing yet. There is at least one engine, and a quorum is more than half of them.
func New(engines []*engine.Engine, cfg Config) *Locks {
	l := &Locks{cfg: cfg, entries: make(map[string]*entry), leases: make(map[*lease]struct{}), holds: localq.NewHolds()}
	l.ctx, l.cancel = context.WithCancel(background)
	l.work, l.idleTimes = make(chan func()), transport.NewTimeouts(l.ctx, idleTime, idleTime/4)
	l.stalls = transport.NewTimeouts(background, core.StallAfter+core.StallAfter/4, core.StallAfter/4)
	l.releases = transport.NewTimeouts(background, cfg.Unlock, cfg.Unlock/8)
	for i, e := range engines {
		l.nodes = append(l.nodes, newNode(l, i, e))
		if len(engines) > 1 {
			e.BeOneOfSeveral()
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
	if l.closing || l.closedByNodes.Load() {
		l.mu.Unlock()
		return nil, &core.AcquireError{Err: core.ErrClosed}
	}
	e := l.entry(r.Key)
	if err := e.enqueue(w); err != nil {
		e.tidy()
		l.mu.Unlock()
		return nil, err
	}
	holders, held := e.knownHolders()
	w.Told = held && len(holders) > 0
	notify := w.Told
	e.start()
	l.mu.Unlock()
	if notify {
		r.Events.Contended(core.Wait{Holders: holders})
	}
	var stalled <-chan struct{}
	if r.Wait > core.StallAfter {
		stalled = l.stalls.Next(w.Began).Done()
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

// unlockAndTell unlocks the mutex, and calls what is to be called without it; nil: nothing.
func (l *Locks) unlockAndTell(tell func()) {
	l.mu.Unlock()
	if tell != nil {
		tell()
	}
}

// majority reports whether enough nodes have answered within the last second: nobody queues or keeps a node otherwise.
func (l *Locks) majority(now time.Time) bool {
	n := 0
	for _, d := range l.nodes {
		if d.answers(now) {
			n++
		}
	}
	return n >= l.cfg.Quorum
}

var _ core.LimitedLocks = (*Locks)(nil)

// CheckTimes implements core.LimitedLocks. Each node grants a hold of its own, so that what one of them refuses cannot be had.
func (l *Locks) CheckTimes(lease, minHold time.Duration) error {
	for _, n := range l.nodes {
		if err := n.engine.CheckTimes(lease, minHold); err != nil {
			return err
		}
	}
	return nil
}
