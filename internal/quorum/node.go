package quorum

import (
	"context"
	"errors"
	"hash/fnv"
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

	answered time.Time // when it answered last, and would have granted a lock
	away     bool      // since then it has not
	late     bool      // a release has waited for its answer in vain
	err      error     // why
	final    bool      // waiting does not help

	ahead   int64  // by how much its clock is ahead of this process', with the time on the way (µs since base); 0: not known
	raised  string // the server that knows all tokens: see trust.go
	probing bool   // it is being asked whether it answers
	asked   time.Time
}

func newNode(l *Locks, i int, e *engine.Engine) *node {
	return &node{l: l, index: i, engine: e, timeouts: transport.NewTimeouts(e.Context(), l.cfg.Limit, l.cfg.Limit/8)}
}

// answerTime is for how long an answer says that a node is there.
const answerTime = time.Second

// answers reports whether the node has answered of late.
func (n *node) answers(now time.Time) bool {
	return !n.away && !n.answered.IsZero() && now.Sub(n.answered) <= answerTime
}

// note notes how the node has answered.
func (n *node) note(err error) {
	if err == nil || isBusy(err) {
		n.answered, n.away, n.err, n.final = time.Now(), false, nil, false
		return
	}
	n.away, n.err, n.final = true, err, !transport.IsTemporary(err)
	n.l.prober.want(n.l)
}

// isBusy reports whether err is the answer of a node that somebody else has.
func isBusy(err error) bool {
	return errors.Is(err, core.ErrBusy) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// limited returns a context with the values of ctx that ends when the node has taken too long.
func (n *node) limited(ctx context.Context) context.Context {
	return &limitedContext{n.timeouts.Next(clock.Now()), ctx}
}

// A limitedContext has the end of one context, and the values of another one before its own.
type limitedContext struct {
	context.Context
	values context.Context
}

func (c *limitedContext) Value(key any) any {
	if v := c.values.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}

// order returns the nodes in the order in which calls for a key wait for them. It is the same in all processes that have
// the nodes in the same order.
func (l *Locks) order(key string) func(i int) *node {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // never fails
	start := int(h.Sum32() % uint32(len(l.nodes)))
	return func(i int) *node { return l.nodes[(start+i)%len(l.nodes)] }
}
