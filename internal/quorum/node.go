package quorum

import (
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/engine"
	"github.com/lockmw/go/internal/transport"
)

// A node is one of the servers. The mutex of Locks guards its state.
type node struct {
	l        *Locks
	index    int
	engine   *engine.Engine
	timeouts *transport.Timeouts

	answered    time.Time // when it last answered and would have granted a lock, of another key at least
	unreachable bool      // it has not answered since then
	late        bool      // a release has waited for its answer in vain
	err         error     // why it is unreachable
	final       bool      // waiting does not help

	ahead   int64  // by how much its clock is ahead of this process' clock, including the time on the way (µs since base); 0: unknown
	raised  string // the replication id with which its counter has all tokens: see verify.go
	probing bool   // a probe is in progress
	asked   time.Time
}

func newNode(l *Locks, i int, e *engine.Engine) *node {
	return &node{l: l, index: i, engine: e, timeouts: transport.NewTimeouts(e.Context(), l.cfg.NodeTimeout, l.cfg.NodeTimeout/8)}
}

// answerTime is how long a node counts as reachable after an answer.
const answerTime = time.Second

// answers reports whether the node has answered recently.
func (n *node) answers(now time.Time) bool {
	return !n.unreachable && !n.answered.IsZero() && now.Sub(n.answered) <= answerTime
}

// note records the node's answer. A node that refuses one key works, and may grant others.
func (n *node) note(err error) {
	if err == nil || isBusy(err) || transport.IsAboutKey(err) {
		n.answered, n.unreachable, n.err, n.final = time.Now(), false, nil, false
		return
	}
	n.unreachable, n.err, n.final = true, err, !transport.IsTemporary(err)
	n.l.prober.keepRunning(n.l)
}

// isBusy reports whether err says that another process holds the lock at the node.
func isBusy(err error) bool {
	return errors.Is(err, core.ErrBusy) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// limited returns a context with the values of ctx. It ends when the node has taken too long.
func (n *node) limited(ctx context.Context) context.Context {
	return &transport.LimitedContext{Context: n.timeouts.Next(clock.Now()), Values: ctx}
}

// order returns the nodes in the order in which calls for a key queue at them. It is the same in all processes that list the
// nodes in the same order.
func (l *Locks) order(key string) []*node {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // never fails
	start := int(h.Sum32() % uint32(len(l.nodes)))
	return slices.Concat(l.nodes[start:], l.nodes[:start])
}
