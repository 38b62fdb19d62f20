package quorum

import (
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
)

// A prober asks nodes whether they answer, as long as that matters: while calls wait that need a majority, while a node is
// unreachable, or while a lease lacks a node. The mutex of Locks guards it.
type prober struct {
	running bool
	key     string // the key in the requests to nodes
}

// probeInterval separates two checks.
const probeInterval = 250 * time.Millisecond

// watch makes the engines detect restarts of their nodes immediately, while there is a lease. A loss of the lease by a node
// must not remain unnoticed until the next renewal.
func (l *Locks) watch() {
	if len(l.nodes) == 1 {
		return
	}
	for _, n := range l.nodes {
		n.engine.WatchForRestart()
	}
}

// keepRunning starts the prober, which runs until it is not needed any more. l.mu is held.
func (p *prober) keepRunning(l *Locks) {
	if p.running || l.closed {
		return
	}
	p.running = true
	l.spawn(l.probe)
}

// probe checks the nodes as long as necessary.
func (l *Locks) probe() {
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-tick.C:
		}
		l.mu.Lock()
		if l.ctx.Err() != nil || !l.check(time.Now()) {
			l.prober.running = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
	}
}

// check probes the nodes if anything needs them, and reports whether anything does.
func (l *Locks) check(now time.Time) (needed bool) {
	key := l.prober.key
	for k, e := range l.entries {
		if b := e.bid; b != nil && b.phase != asks {
			needed, key = true, k
			b.check(now)
		}
	}
	for s := range l.leases {
		if s.isMissing() {
			needed, key = true, s.e.key
			s.join(now)
		}
	}
	for _, n := range l.nodes {
		needed = needed || n.unreachable
	}
	l.prober.key = key
	if !needed {
		return false
	}
	if l.mustVerify(key) { // otherwise a restarted node would not join the holds of a process that makes no bids
		l.verifyNodes(key, func() {})
	}
	for _, n := range l.nodes {
		if n.unreachable || now.Sub(n.answered) >= probeInterval {
			n.probe(key)
		}
	}
	return true
}

// check drops the requests of a bid if too few nodes have answered recently, or if the first node is unreachable.
func (b *bid) check(now time.Time) {
	if b.phase != waits && b.phase != inOrder {
		return
	}
	l := b.e.l
	switch {
	case !l.majority(now):
		err := &core.AcquireError{Err: b.unavailable()}
		b.dropAll()
		b.e.failAll(err, (*localq.Waiter).FailsFast)
		b.pauseOrEnd()
	case b.phase == waits && b.first.unreachable && l.cfg.Quorum < len(l.nodes):
		b.dropAll()
		b.begin()
	}
}

// probe asks the node in the background whether it would grant a lock.
func (n *node) probe(key string) {
	if n.probing {
		return
	}
	if key == "" {
		key = "probe"
	}
	n.probing = true
	n.l.spawn(func() {
		n.ask(key)
		n.l.mu.Lock()
		defer n.l.mu.Unlock()
		n.probing = false
	})
}

// ask asks the node whether it would grant a lock, and records the answer.
func (n *node) ask(key string) {
	last, err := n.engine.Counter(n.timeouts.Next(clock.Now()), key)
	n.l.mu.Lock()
	defer n.l.mu.Unlock()
	n.note(err)
	if err == nil {
		n.l.noteToken(last)
	}
}

// probeAll asks all nodes whether they answer, and then calls done with l.mu held.
func (l *Locks) probeAll(key string, done func()) {
	l.spawn(func() {
		each(l.nodes, func(n *node) { n.ask(key) })
		l.mu.Lock()
		defer l.mu.Unlock()
		done()
	})
}
