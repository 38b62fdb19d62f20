package quorum

import "time"

// joinPause is between two tries to have nodes join a lease.
const joinPause = time.Second

// join asks the nodes that are no part of the lease, and are not away, to become that.
func (l *lease) join(now time.Time) {
	if l.over || now.Sub(l.joined) < joinPause || !l.isMissing() || l.terms.Fixed {
		return
	}
	h := l.e.holder.Load()
	if h == nil || h.forgotten {
		return
	}
	l.joined = now
	for i, n := range l.e.l.nodes {
		b := l.ballots[i]
		if n.away || b != nil && (b.counts() || b.state == asking || b.state == queued) {
			continue
		}
		b = l.e.newBallot(n, l.terms, 0)
		b.lease, b.vote.Token, b.vote.Tokens = l, l.last, 1
		l.ballots[i] = b
		b.send(background)
	}
}

// onBallot deals with the answer of a node that is to join. Its counter is raised before it counts.
func (l *lease) onBallot(b *ballot) {
	switch {
	case l.over:
		b.drop()
		return
	case b.state != granted:
		if b.state != queued && l.ballots[b.n.index] == b {
			l.ballots[b.n.index] = nil
		}
		return
	case l.terms.Fixed: // it would move the deadline; the key is taken there all the same
		return
	case !l.e.l.cfg.Tokens, b.knows >= l.last:
		l.add(b)
		return
	}
	b.raise(l.last, func(err error) {
		switch {
		case l.over:
		case !b.counts():
			b.drop()
			if l.ballots[b.n.index] == b { // else the node was asked again meanwhile
				l.ballots[b.n.index] = nil
			}
		case err == nil:
			l.add(b)
		} // else it is kept, so that nobody else has it, and does not count
	})
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
}
