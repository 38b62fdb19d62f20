package quorum

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/engine"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/transport"
)

// A node with a quarantine that was restarted, or has taken the place of another, may have lost fencing tokens. After its
// quarantine it has no holder, but its clock may be behind the clocks of the others. So before it counts, its counter is raised
// to the greatest counter of N-k+1 other nodes that have lost none. Each hold's token is at one of them at least. A note at the
// node records this for other processes, by the replication id. A node without its note may have lost tokens.

// isVerified reports whether the node may count.
func (n *node) isVerified(key string) bool {
	id := n.engine.TrustedServer(key)
	return id == "" || id == n.raised
}

// mustVerify reports whether any node must be verified before it counts.
func (l *Locks) mustVerify(key string) bool {
	return slices.ContainsFunc(l.nodes, func(n *node) bool {
		return n.engine.Config().Quarantine > 0 && (n.raised == "" && !n.unreachable || !n.isVerified(key)) && time.Since(n.asked) > probeInterval
	})
}

// verifyNodes raises the nodes that need it in the background, and then calls done with l.mu held.
func (l *Locks) verifyNodes(key string, done func()) {
	for _, n := range l.nodes {
		n.asked = time.Now()
	}
	l.spawn(func() {
		counters := l.verifiedCounters(background, key)
		l.mu.Lock()
		defer l.mu.Unlock()
		for i, n := range l.nodes {
			if counters[i].err == nil {
				n.raised = counters[i].id
			}
			n.note(counters[i].err)
		}
		done()
	})
}

// verifiedCounters raises the nodes that need it, and returns the counters of all nodes after that.
func (l *Locks) verifiedCounters(ctx context.Context, key string) []nodeCounter {
	found, verified := make([]nodeCounter, len(l.nodes)), make([]nodeCounter, len(l.nodes))
	each(l.nodes, func(n *node) { found[n.index] = n.readCounter(ctx, key) })
	each(l.nodes, func(n *node) { verified[n.index] = n.verify(ctx, key, found) })
	return verified
}

// A nodeCounter is the answer of a node.
type nodeCounter struct {
	last   int64  // the counter
	id     string // of the server
	raised bool   // a note says that its counter was raised: it has lost no tokens since
	err    error
}

// timeout returns a context that ends with ctx, with the node's engine, or when the node has taken too long.
func (n *node) timeout(ctx context.Context) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancel(n.timeouts.Next(clock.Now()))
	stop := context.AfterFunc(ctx, cancel)
	return inner, func() {
		stop()
		cancel()
	}
}

// readCounter reads the node's counter and its note.
func (n *node) readCounter(ctx context.Context, key string) (a nodeCounter) {
	ctx, cancel := n.timeout(ctx)
	defer cancel()
	if a.last, a.err = n.engine.Counter(ctx, key); a.err == nil {
		if a.id = n.engine.TrustedServer(key); a.id == "" {
			a.raised = true // without a quarantine nothing is known about losses
		} else {
			a.raised, a.err = n.isRaised(ctx, a.id)
		}
	}
	return a
}

// verify raises the node's counter to the others' counters, unless that was done before, and returns it.
func (n *node) verify(ctx context.Context, key string, answers []nodeCounter) nodeCounter {
	mine := answers[n.index]
	if mine.err != nil || mine.raised {
		return mine
	}
	others, greatest := 0, int64(0)
	for i, a := range answers {
		if i != n.index && a.err == nil {
			greatest = max(greatest, a.last)
			if a.raised {
				others++
			}
		}
	}
	ctx, cancel := n.timeout(ctx)
	defer cancel()
	if all := len(answers); all > 1 && others < all-n.l.cfg.Quorum+1 {
		most := int64(0)
		if most, mine.err = n.greatestLost(ctx); mine.err != nil {
			return mine
		}
		greatest = max(greatest, most)
	}
	if greatest > 0 {
		if mine.err = n.engine.Raise(ctx, key, greatest); mine.err != nil {
			return mine
		}
	}
	mine.last, mine.err = max(mine.last, greatest), n.recordRaised(ctx, mine.id)
	return mine
}

// clockSlack is how far the clock of a server may be behind the clock of the server whose place it took.
const clockSlack = 10 * time.Second

// greatestLost returns a token that is greater than every token that the node may have lost. A node's counter is never more
// than script.MaxAhead ahead of its clock, and the loss happened at least a quarantine ago. Tokens that the node never had do
// not matter: no node has all.
func (n *node) greatestLost(ctx context.Context) (int64, error) {
	now, err := n.redis().Time(ctx).Result()
	if err != nil {
		return 0, transport.Failure(err)
	}
	return now.Add(script.MaxAhead - max(0, n.engine.Config().Quarantine-clockSlack)).UnixMicro(), nil
}

// each calls f for all nodes concurrently, and returns when all calls have returned.
func each(nodes []*node, f func(*node)) {
	var wg sync.WaitGroup
	for _, n := range nodes {
		wg.Go(func() { f(n) })
	}
	wg.Wait()
}

// counterKey is a key without locks: the counter of a node is the same for all keys.
const counterKey = "carry"

// CarryTokens raises the counters of other servers to the greatest counter of these nodes. Of N nodes, N-k+1 must answer that have
// lost no tokens, or were raised since: one of them has the token of every hold.
func (l *Locks) CarryTokens(ctx context.Context, to []*engine.Engine) error {
	answered, greatest, why := 0, int64(0), error(nil)
	for _, a := range l.verifiedCounters(ctx, counterKey) {
		if a.err != nil {
			why = a.err
			continue
		}
		answered++
		greatest = max(greatest, a.last)
	}
	if need := len(l.nodes) - l.cfg.Quorum + 1; answered < need {
		return fmt.Errorf("%w: %d of %d nodes have answered, %d required: %w", core.ErrUnavailable, answered, len(l.nodes), need, why)
	}
	if greatest == 0 {
		return nil
	}
	for i, e := range to {
		if err := e.Raise(ctx, counterKey, greatest); err != nil {
			return fmt.Errorf("new node %d: %w", i+1, err)
		}
	}
	return nil
}

func (n *node) redis() redis.UniversalClient { return n.engine.Backend().Redis }

// raisedKeyTTL is how long a server remembers that its counter was raised.
const raisedKeyTTL = 30 * 24 * time.Hour

// recordRaised records on the server that its counter was raised to the counters of other nodes. server is the name that
// TrustedServer returned.
func (n *node) recordRaised(ctx context.Context, server string) error {
	return transport.Failure(n.redis().Set(ctx, n.raisedKey(server), 1, raisedKeyTTL).Err())
}

// isRaised reports whether recordRaised has recorded that.
func (n *node) isRaised(ctx context.Context, server string) (bool, error) {
	found, err := n.redis().Exists(ctx, n.raisedKey(server)).Result()
	return found == 1, transport.Failure(err)
}

func (n *node) raisedKey(server string) string { return n.engine.Config().Prefix + ":raised:" + server }
