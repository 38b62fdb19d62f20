package engine

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A lane is a way to the server with short limits, on which calls run in the goroutines of their
// callers. It shares the connections of the user's client.
type lane struct {
	rdb   redis.UniversalClient // nil: there is no such way, as this kind of client has no limits to set
	turns *timeouts
}

// newLane returns a lane on which a call gets a connection within one to two turns, and an answer on it
// within the time given, or fails.
func newLane(c *caller, turn, answer time.Duration) *lane {
	l := &lane{turns: &timeouts{parent: c.ctx, limit: 2 * turn, step: turn}}
	if single, ok := c.rdb.(*redis.Client); ok {
		l.rdb = single.WithTimeout(answer)
	}
	return l
}

// run sends k once.
func (l *lane) run(k *call) redis.Cmder {
	ctx := &callContext{Context: l.turns.next(k.sends()), values: k.ctx}
	cmd := once{k.command(ctx)}
	_ = l.rdb.Process(ctx, cmd) // the error is cmd's
	return cmd
}

// timeouts makes contexts that end after a limit, and at most a step earlier. Those asked for within a
// step are one and the same, so that not everybody has to start a timer.
type timeouts struct {
	parent      context.Context
	limit, step time.Duration

	mu     sync.Mutex
	ctx    context.Context
	begun  time.Time
	cancel context.CancelFunc // of ctx; not called
}

func (t *timeouts) next(now time.Time) context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx == nil || now.Sub(t.begun) >= t.step {
		t.begun = now
		t.ctx, t.cancel = context.WithTimeout(t.parent, t.limit) //nolint:gosec // others may still use it when it is replaced
	}
	return t.ctx
}

// once is a command that go-redis does not repeat.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// callContext has the values of one context and the end of another.
type callContext struct {
	context.Context
	values context.Context
}

func (c *callContext) Value(key any) any {
	if v := c.values.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}
