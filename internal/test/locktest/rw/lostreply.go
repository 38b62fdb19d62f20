package rw

import (
	"context"

	"github.com/lockmw/go/internal/test/locktest/env"
)

var lostReplies = []env.Scenario{
	env.Case("a lost reply to a downgrade has no effect", func(e *env.Env) { lostReply(e, true) }, env.TwoSided|env.OnServer|env.Shares),
	env.Case("a lost reply to the release that admits readers grants to each of them once", func(e *env.Env) { lostReply(e, false) }, env.TwoSided|env.OnServer|env.Shares),
}

// warmAll loads the scripts of both sides, so that a lost reply is not a NOSCRIPT.
func warmAll(e *env.Env, c *env.Client) *env.Client {
	e.T.Helper()
	key := e.Key("warm")
	held := write(e, c, key)
	w := e.Wait(c.Reader(), key)
	w.Cancel()
	w.Fails(e.Soon, context.Canceled)
	marked(e, key)
	downgrade(e, c, held)
	release(e, held)
	return c
}

// readersQueued waits until n readers are queued.
func readersQueued(e *env.Env, key string, n int64) {
	e.T.Helper()
	e.Eventually(env.Patience, func() string {
		if e.Server.Admin.ZCard(e.Ctx, e.Server.RedisKey(key)+":readqueue").Val() == n {
			return ""
		}
		return "not all waiting readers are queued"
	})
}

// lostReply loses the reply to the command that admits readers.
func lostReply(e *env.Env, downgrades bool) {
	c, other, key := warmAll(e, e.Client()), e.Client(), e.Key("item")
	held := write(e, c, key)
	readers := []*env.Waiter{e.Wait(other.Reader(), key), e.Wait(e.Client().Reader(), key)}
	w := e.Wait(other.RW, key)
	fault := c.Wire.LoseReply(key)
	holds := admitted(e, len(readers), func() { admit(e, c, held, downgrades) }, readers)
	e.Caught(fault)
	w.IsWaiting()
	release(e, holds...)
	if downgrades {
		w.IsWaiting()
		release(e, held)
	}
	e.Unlock(w.Gets(e.Soon))
}
