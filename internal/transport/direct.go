package transport

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
)

// A directConn sends calls to the server in the goroutines of their callers, with short limits. It uses the connections and the
// hooks of the user's client.
type directConn struct {
	rdb    hooked      // the user's client
	bypass *hookBypass // leads past that client, but through its hooks

	node       *redis.Client // of a Cluster; otherwise nil
	nodeBypass *hookBypass
	quick      *redis.Client // to the server, with short limits and without hooks

	timeouts *Timeouts
	answer   time.Duration
}

// newDirectConn returns a directConn to the server of rdb, which is the user's client or the client of a node of the user's
// Cluster. Through it a call gets a connection within one to two turns, and an answer within the given time, or fails.
func newDirectConn(s *Sender, rdb *redis.Client, turn, answer time.Duration) *directConn {
	l := &directConn{
		rdb: rdb, quick: rdb.WithTimeout(answer), bypass: bypassOf(rdb), timeouts: NewTimeouts(s.ctx, 2*turn, turn), answer: answer,
	}
	l.quick.Options().ContextTimeoutEnabled = true // see callContext.Deadline; these are options of its own
	if cluster, ok := s.rdb.(*redis.ClusterClient); ok {
		l.node, l.nodeBypass = rdb, l.bypass
		l.rdb, l.bypass = cluster, bypassOf(cluster)
	}
	return l
}

// afterHooks returns the client that continues after the hooks of the client of a Cluster, or of a server. Limits matter more
// than hooks.
func (l *directConn) afterHooks(cluster bool) hooked {
	if cluster && l.nodeBypass.prepare(l.node) {
		return l.node
	}
	return l.quick
}

// run sends k once. It is the first to send k, and the only directConn that does.
func (l *directConn) run(k *Call) *redis.Cmd {
	by := l.rdb
	if !l.bypass.prepare(l.rdb) {
		by = l.afterHooks(l.node != nil)
	}
	now := clock.Now()
	k.markSent(now)
	k.directCtx = callContext{LimitedContext{l.timeouts.Next(now), k.ctx}, l}
	cmd := k.command(&k.directCtx)
	_ = by.Process(&k.directCtx, noRetryCmd{cmd}) // the error is cmd's
	return cmd
}

// Timeouts makes contexts that end after a limit, and at most a step earlier. Calls within a step share a context, so that not
// every caller has to start a timer. Safe for concurrent use.
type Timeouts struct {
	parent      context.Context
	limit, step time.Duration

	mu     sync.Mutex
	ctx    context.Context
	begun  clock.Instant
	cancel context.CancelFunc // of ctx; not called
}

// NewTimeouts returns Timeouts whose contexts also end with parent.
func NewTimeouts(parent context.Context, limit, step time.Duration) *Timeouts {
	return &Timeouts{parent: parent, limit: limit, step: step}
}

// Next returns a context that ends limit from now, or up to a step earlier. now is the present time.
func (t *Timeouts) Next(now clock.Instant) context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx == nil || now.Sub(t.begun) >= t.step {
		t.begun = now
		t.ctx, t.cancel = context.WithTimeout(t.parent, t.limit) //nolint:gosec // others may still use it when it is replaced
	}
	return t.ctx
}

// noRetryCmd is a command that go-redis does not repeat.
type noRetryCmd struct{ *redis.Cmd }

func (noRetryCmd) NoRetry() bool { return true }

// callContext has the values of one context and the end of another.
type callContext struct {
	LimitedContext
	direct *directConn // that sends the call; nil: none
}

// Deadline implements context.Context. For a direct connection the context ends when there must be a connection, and its deadline
// is when there must be an answer. While a server is maintained, go-redis replaces the limits of a client by 10 s, but not a
// deadline.
func (c *callContext) Deadline() (deadline time.Time, ok bool) {
	if deadline, ok = c.LimitedContext.Deadline(); c.direct != nil {
		deadline = deadline.Add(c.direct.answer)
	}
	return deadline, ok
}

// directKey is the context key of a call's directConn.
type directKey struct{}

func (c *callContext) Value(key any) any {
	if key == (directKey{}) {
		return c.direct
	}
	return c.LimitedContext.Value(key)
}

// A LimitedContext ends with one context, and prefers the values of another one.
type LimitedContext struct {
	context.Context
	Values context.Context
}

// Value implements context.Context.
func (c *LimitedContext) Value(key any) any {
	if v := c.Values.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}
