package quorum

import (
	"context"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
)

// A prober asks nodes whether they answer, as long as that matters: calls wait, which need most of the nodes, a node is
// away, or leases miss one. The mutex of Locks guards it.
type prober struct {
	running bool
	wanted  bool
	key     string // that nodes are asked about
}

// probeInterval is between two looks.
const probeInterval = 250 * time.Millisecond

// watch has restarts of the nodes be noticed when they happen, while there is a lease. A node that has forgotten it must not
// learn of it as late as at the next renewal.
func (l *Locks) watch() {
	if len(l.nodes) == 1 {
		return
	}
	for _, n := range l.nodes {
		n.engine.Watch()
	}
}

// want has the prober look after the nodes until that is not needed any more. l.mu is held.
func (p *prober) want(l *Locks) {
	p.wanted = true
	if p.running || l.closed {
		return
	}
	p.running = true
	l.spawn(l.probe)
}

// probe runs as long as it is wanted.
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
		if l.closedByNodes.Load() || !l.lookAfter(time.Now()) {
			l.prober.running = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
	}
}

// lookAfter looks after everything that needs the nodes, and reports whether there is something.
func (l *Locks) lookAfter(now time.Time) (needed bool) {
	key := l.prober.key
	for k, e := range l.entries {
		if b := e.bid; b != nil && b.phase != asks {
			needed, key = true, k
			b.lookAfter(now)
		}
	}
	for s := range l.leases {
		if s.isMissing() {
			needed, key = true, s.e.key
			s.join(now)
		}
	}
	for _, n := range l.nodes {
		needed = needed || n.away
	}
	l.prober.key = key
	if !needed {
		return false
	}
	if l.wantsTrust(key) { // else a node that was restarted would not join the holds of a process that makes no bids
		l.trustNodes(key, func() {})
	}
	for _, n := range l.nodes {
		if n.away || now.Sub(n.answered) >= probeInterval {
			n.probe(key)
		}
	}
	return true
}

// lookAfter ends what a bid has in queues, or keeps, if too few nodes have answered of late, or the first is away.
func (b *bid) lookAfter(now time.Time) {
	if b.phase != waits && b.phase != climbs {
		return
	}
	l := b.e.l
	switch {
	case !l.majority(now):
		err := &core.AcquireError{Err: b.unavailable()}
		b.retreat()
		b.e.failAll(err, (*localq.Waiter).FailsFast)
		b.pauseOrEnd()
	case b.phase == waits && b.first.away && l.cfg.Quorum < len(l.nodes):
		b.retreat()
		b.begin()
	}
}

// probe asks the node whether it would grant a lock.
func (n *node) probe(key string) {
	if n.probing {
		return
	}
	if key == "" {
		key = "probe"
	}
	n.probing = true
	n.l.spawn(func() {
		n.look(key)
		n.l.mu.Lock()
		defer n.l.mu.Unlock()
		n.probing = false
	})
}

// look asks the node whether it would grant a lock, and notes the answer.
func (n *node) look(key string) {
	ctx, cancel := context.WithTimeout(n.engine.Context(), n.l.cfg.Limit)
	defer cancel()
	last, err := n.engine.Counter(ctx, key)
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
		each(l.nodes, func(n *node) { n.look(key) })
		l.mu.Lock()
		defer l.mu.Unlock()
		done()
	})
}
