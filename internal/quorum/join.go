package quorum

import (
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
)

// joinPause is between two tries to have nodes join a lease.
const joinPause = time.Second

// join asks the nodes that are no part of the lease, and are not away, to become that. A request queues: others may have the
// node for a moment, in an attempt that comes to nothing, and the lease must not miss the next moment.
func (l *lease) join(now time.Time) {
	if l.over || now.Sub(l.joined) < joinPause || !l.isMissing() {
		return
	}
	h := l.e.holder.Load()
	if h == nil || h.Forgotten {
		return
	}
	l.joined = now
	for i, n := range l.e.l.nodes {
		switch b := l.ballots[i]; {
		case n.away, b != nil && (b.state == asking || b.state == queued):
		case b.counts() && (b.raising || l.has(b)):
		case b.counts(): // its counter could not be raised
			l.onBallot(b)
		default:
			l.askToJoin(n)
		}
	}
}

// askToJoin asks a node to become a part of the lease.
func (l *lease) askToJoin(n *node) {
	terms := l.terms
	if ends := l.ends.Load(); ends != nil {
		left := clock.Until(*ends)
		if left < localq.SlowAnswer {
			return
		}
		rest := *terms
		rest.Lease = min(n.engine.LeaseFor(left), terms.Lease)
		terms = &rest
	}
	b := l.e.newBallot(n, terms, core.Forever)
	b.lease, b.vote.Token, b.vote.Tokens = l, l.tokens.Last(), 1
	l.ballots[n.index] = b
	b.send(background)
}

// onBallot deals with the answer of a node that is to join. Its counter is raised before it counts.
func (l *lease) onBallot(b *ballot) {
	switch {
	case l.over:
		b.drop()
	case b.state == queued:
	case b.state != granted:
		l.giveUp(b)
	case !l.e.l.cfg.Tokens, b.knows >= l.tokens.Last():
		l.add(b)
	default:
		b.raise(l.shown(), l.tokens.Last(), func(err error) { l.onRaised(b, err) })
	}
}

// onRaised deals with the end of a raise. A node whose counter could not be raised is kept, so that nobody else has it, and does
// not count.
func (l *lease) onRaised(b *ballot, err error) {
	switch {
	case l.over:
	case !b.counts():
		b.drop()
		l.giveUp(b)
	case err == nil:
		l.add(b)
	default:
		l.stepExtensions()
	}
}

// giveUp continues without a node that did not join.
func (l *lease) giveUp(b *ballot) {
	if l.ballots[b.n.index] == b { // else the node was asked again meanwhile
		l.ballots[b.n.index] = nil
	}
	l.stepExtensions()
}

// add has a node count.
func (l *lease) add(b *ballot) {
	members := make([]*ballot, 0, len(l.e.l.nodes))
	for _, m := range *l.members.Load() {
		if m.n != b.n {
			members = append(members, m)
		}
	}
	members = append(members, b)
	l.members.Store(&members)
	l.show(b)
	l.stepExtensions()
}

// shown returns the token that nodes are to show as that of the hold.
func (l *lease) shown() int64 {
	if h := l.e.holder.Load(); h != nil && h.lease == l {
		return h.Token()
	}
	return l.tokens.Last()
}

// show has a node show the token of the hold, in the background: it has given another one.
func (l *lease) show(b *ballot) {
	if l.e.l.cfg.Tokens && b.shows != l.shown() && !b.raising {
		b.raise(l.shown(), l.tokens.Last(), func(error) {})
	}
}
