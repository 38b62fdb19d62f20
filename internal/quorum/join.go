package quorum

import (
	"slices"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
)

// joinPause separates two requests to a node to join a lease.
const joinPause = time.Second

// join asks the reachable nodes that are not part of the lease to join it. A request queues, because a failed bid of another
// process may have the node for a moment, and the lease must get it after that.
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
		switch v := l.votes[i]; {
		case n.unreachable, v.is(asking, queued):
		case v.counts() && (v.raising || l.has(v)):
		case v.counts(): // its counter could not be raised
			l.onVote(v)
		default:
			l.askToJoin(n)
		}
	}
}

// askToJoin asks a node to join the lease.
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
	v := l.e.newVote(n, terms, core.Forever)
	v.lease, v.extra.Token, v.extra.Tokens = l, l.tokens.Last(), 1
	l.votes[n.index] = v
	v.send(background)
}

// onVote handles the answer of a node that is to join. Its counter is raised before it counts.
func (l *lease) onVote(v *vote) {
	switch {
	case l.over:
		v.drop()
	case v.state == queued:
	case v.state != granted:
		l.giveUp(v)
	case !l.e.l.cfg.Tokens, v.counter >= l.tokens.Last():
		l.add(v)
	default:
		v.raise(l.shown(), l.tokens.Last(), func(err error) { l.onRaised(v, err) })
	}
}

// onRaised handles the end of a raise. A node whose counter could not be raised does not count, but is kept so that no other
// process gets it.
func (l *lease) onRaised(v *vote, err error) {
	switch {
	case l.over:
	case !v.counts():
		v.drop()
		l.giveUp(v)
	case err == nil:
		l.add(v)
	default:
		l.stepExtensions()
	}
}

// giveUp continues without a node that did not join.
func (l *lease) giveUp(v *vote) {
	if l.votes[v.n.index] == v { // otherwise the node was asked again in the meantime
		l.votes[v.n.index] = nil
	}
	l.stepExtensions()
}

// add makes a node a part of the lease that counts.
func (l *lease) add(v *vote) {
	members := append(slices.DeleteFunc(slices.Clone(*l.members.Load()), func(m *vote) bool { return m.n == v.n }), v)
	l.members.Store(&members)
	l.show(v)
	l.stepExtensions()
}

// shown returns the token that nodes must show for the hold.
func (l *lease) shown() int64 {
	if h := l.e.holder.Load(); h != nil && h.lease == l {
		return h.Token()
	}
	return l.tokens.Last()
}

// show makes a node that gave a different token show the token of the hold, in the background.
func (l *lease) show(v *vote) {
	if l.e.l.cfg.Tokens && v.shows != l.shown() && !v.raising {
		v.raise(l.shown(), l.tokens.Last(), func(error) {})
	}
}
