package quorum

import (
	"context"
	"fmt"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/engine"
	"github.com/lockmw/go/internal/script"
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
		answers := make([]trustAnswer, len(l.nodes))
		each(l.nodes, func(n *node) { answers[n.index] = n.askTrust(key) })
		outcomes := make([]error, len(l.nodes))
		each(l.nodes, func(n *node) { outcomes[n.index] = n.becomeTrusted(key, answers) })
		l.mu.Lock()
		defer l.mu.Unlock()
		for i, n := range l.nodes {
			if outcomes[i] == nil {
				n.raised = answers[i].id
			}
			n.note(outcomes[i])
		}
		done()
	})
}

// A trustAnswer is what a node knows.
type trustAnswer struct {
	last  int64  // the counter
	id    string // of the server
	noted bool   // its counter was raised
	err   error
}

// askTrust asks the node what it knows.
func (n *node) askTrust(key string) (a trustAnswer) {
	ctx, cancel := context.WithTimeout(n.engine.Context(), n.l.cfg.Limit)
	defer cancel()
	if a.last, a.err = n.engine.Counter(ctx, key); a.err == nil {
		a.id = n.engine.Trusted(key)
		a.noted, a.err = n.engine.IsNoted(ctx, a.id)
	}
	return a
}

// becomeTrusted raises the node to what the others have answered, unless that was done before.
func (n *node) becomeTrusted(key string, answers []trustAnswer) error {
	mine := answers[n.index]
	if mine.err != nil || mine.noted {
		return mine.err
	}
	others, greatest := 0, int64(0)
	for i, a := range answers {
		if i != n.index && a.err == nil {
			others++
			greatest = max(greatest, a.last)
		}
	}
	ctx, cancel := context.WithTimeout(n.engine.Context(), n.l.cfg.Limit)
	defer cancel()
	if all := len(answers); all > 1 && others < all-n.l.cfg.Quorum+1 {
		most, err := n.mostForgotten(ctx)
		if err != nil {
			return err
		}
		greatest = max(greatest, most)
	}
	if greatest > 0 {
		if err := n.engine.Raise(ctx, key, greatest); err != nil {
			return err
		}
	}
	return n.engine.Note(ctx, mine.id)
}

// clockSlack is by how much the clock of a server may be behind that of the one whose place it took.
const clockSlack = 10 * time.Second

// mostForgotten returns a token that is greater than all that the node can have forgotten. No token that a node knows is more than
// script.MaxAhead ahead of its clock, and what the node has forgotten it did at least a quarantine ago. What it never knew does not
// matter: that holds for every node.
func (n *node) mostForgotten(ctx context.Context) (int64, error) {
	now, err := n.engine.ServerTime(ctx)
	if err != nil {
		return 0, err
	}
	return now.Add(script.MaxAhead - max(0, n.engine.Config().Quarantine-clockSlack)).UnixMicro(), nil
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

// carryKey is a key that nobody locks: the counters are those of all keys.
const carryKey = "carry"

// CarryTokens raises the counters of other servers to the greatest of these nodes. Of N nodes, N-k+1 have to answer: one of
// them knows the token of every hold.
func (l *Locks) CarryTokens(ctx context.Context, to []*engine.Engine) error {
	last := make([]int64, len(l.nodes))
	errs := make([]error, len(l.nodes))
	each(l.nodes, func(n *node) {
		inner, cancel := context.WithTimeout(ctx, l.cfg.Limit)
		defer cancel()
		last[n.index], errs[n.index] = n.engine.Counter(inner, carryKey)
	})
	answered, greatest, why := 0, int64(0), error(nil)
	for i, err := range errs {
		if err != nil {
			why = err
			continue
		}
		answered++
		greatest = max(greatest, last[i])
	}
	if need := len(l.nodes) - l.cfg.Quorum + 1; answered < need {
		return fmt.Errorf("%w: %d of %d nodes have answered, of %d that it needs: %w", core.ErrUnavailable, answered, len(l.nodes), need, why)
	}
	if greatest == 0 {
		return nil
	}
	for i, e := range to {
		if err := e.Raise(ctx, carryKey, greatest); err != nil {
			return fmt.Errorf("new node %d: %w", i+1, err)
		}
	}
	return nil
}
