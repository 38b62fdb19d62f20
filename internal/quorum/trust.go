package quorum

import (
	"context"
	"time"
)

// A node with a quarantine that was restarted, or took another's place, may have forgotten fencing tokens. When its quarantine
// is over it knows of no holder, but its clock may be behind those of the others. So before it counts, its counter is raised
// to the greatest of N-k+1 other nodes, one of which knows the token of every hold. That is noted at the node, by the name of
// the server, for other processes.

// isRaised reports whether the node may count.
func (n *node) isRaised(key string) bool {
	id := n.engine.Trusted(key)
	return id == "" || id == n.raised
}

// wantsTrust reports whether there are nodes that have to be raised before they count.
func (l *Locks) wantsTrust(key string) bool {
	for _, n := range l.nodes {
		if n.engine.Config().Quarantine > 0 && (n.raised == "" && !n.away || !n.isRaised(key)) && time.Since(n.asked) > probeInterval {
			return true
		}
	}
	return false
}

// trustNodes raises the nodes that have to be, and then calls done with l.mu held.
func (l *Locks) trustNodes(key string, done func()) {
	for _, n := range l.nodes {
		n.asked = time.Now()
	}
	l.spawn(func() {
		type answer struct {
			last  int64
			id    string
			noted bool
			err   error
		}
		answers := make([]answer, len(l.nodes))
		ctx, cancel := context.WithTimeout(l.ctx, 2*l.cfg.Limit)
		defer cancel()
		each(l.nodes, func(n *node) {
			a := &answers[n.index]
			inner, cancel := context.WithTimeout(n.engine.Context(), l.cfg.Limit)
			defer cancel()
			a.last, a.err = n.engine.Counter(inner, key)
			if a.err == nil {
				a.id = n.engine.Trusted(key)
				a.noted, a.err = n.engine.IsNoted(inner, a.id)
			}
		})
		raised := make([]bool, len(l.nodes))
		each(l.nodes, func(n *node) {
			a := &answers[n.index]
			if a.err != nil || a.id == "" {
				return
			}
			others, greatest := 0, int64(0)
			for i, other := range answers {
				if i != n.index && other.err == nil {
					others++
					greatest = max(greatest, other.last)
				}
			}
			if !a.noted {
				if others < len(l.nodes)-l.cfg.Quorum+1 && len(l.nodes) > 1 {
					return
				}
				if greatest > 0 {
					a.err = n.engine.Raise(ctx, key, greatest)
				}
				if a.err == nil {
					a.err = n.engine.Note(ctx, a.id)
				}
			}
			raised[n.index] = a.err == nil
		})
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, n := range l.nodes {
			switch a := &answers[n.index]; {
			case raised[n.index]:
				n.raised = a.id
				n.note(nil)
			case a.err != nil:
				n.note(a.err)
			default:
				n.note(errNotRaised)
			}
		}
		done()
	})
}

// each calls f for all nodes, side by side.
func each(nodes []*node, f func(*node)) {
	ended := make(chan struct{}, len(nodes))
	for _, n := range nodes {
		go func() {
			f(n)
			ended <- struct{}{}
		}()
	}
	for range nodes {
		<-ended
	}
}
