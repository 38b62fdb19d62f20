package rw

import (
	"context"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// Late and repeated commands of both sides.
var replays = []env.Scenario{
	env.Case("a late copy of a downgrade changes nothing", lateDowngrade, env.TwoSided|env.OnServer|env.Shares),
	env.Case("repeating all commands of a downgraded hold after its release changes nothing", replayOfDowngraded, env.TwoSided|env.OnServer|env.Shares),
}

// inEachPhase calls check while key is free, while a reader of c holds it, and while a writer of c holds it.
func inEachPhase(e *env.Env, c *env.Client, key string, check func()) {
	e.T.Helper()
	check()
	e.Free(c.RW, key)
	for _, l := range []lockmw.Locker{c.Reader(), c.RW} {
		ctx, held := e.Lock(l, key, lockmw.WithWait(e.Ample(e.Soon)))
		before := e.Server.Show(e.Server.RedisKey(key))
		check()
		e.Server.Unchanged(key, before)
		e.Unlock(ctx, held)
		e.Free(c.RW, key)
	}
}

// marked waits until key has a done mark.
func marked(e *env.Env, key string) {
	e.T.Helper()
	e.Eventually(env.Patience, func() string {
		if keys, _ := e.Server.Keys(e.Ctx, e.Server.RedisKey(key)+":done:"); len(keys) > 0 {
			return ""
		}
		return "the cancel did not arrive"
	})
}

func lateDowngrade(e *env.Env) {
	c, other, key := warmAll(e, e.Client()), e.Client(), e.Key("item")
	held := write(e, c, key)
	late := c.Copied(key, func() { downgrade(e, c, held) })
	before := e.Server.Show(e.Server.RedisKey(key))
	e.Server.Deliver(late)
	e.Server.Unchanged(key, before)
	release(e, held)
	inEachPhase(e, other, key, func() { e.Server.Deliver(late) })
	held = write(e, c, key, lockmw.WithWait(e.Ample(e.Soon))) // another hold of the same process
	before = e.Server.Show(e.Server.RedisKey(key))
	e.Server.Deliver(late)
	e.Server.Unchanged(key, before)
	e.Busy(other.Reader(), key)
	release(e, held)
}

// repeated reruns recorded scripts in each phase.
func repeated(e *env.Env, c *env.Client, key string, scripts []redistest.Command) {
	e.T.Helper()
	inEachPhase(e, c, key, func() {
		before := e.Server.Show(e.Server.RedisKey(key))
		e.Server.Rerun(scripts, key, func() { e.Server.Unchanged(key, before) })
	})
}

func replayOfDowngraded(e *env.Env) {
	c, other, key := e.Client(), e.Client(), e.Key("item")
	renewed := make(chan struct{}, 100)
	held := write(e, c, key, lockmw.WithLease(e.Ample(600*time.Millisecond)), lockmw.WithObserver(&lockmw.Observer{
		Renewed: func(context.Context, lockmw.Attempt, error) { renewed <- struct{}{} },
	}))
	c.Wire.Record()
	env.Next(e, renewed)
	reader := e.Wait(other.Reader(), key)
	downgrade(e, c, held)
	env.Next(e, renewed)
	env.Next(e, renewed)
	_, beside := reader.Gets(e.Soon)
	release(e, held)
	scripts := c.Wire.Sent()
	before := e.Server.Show(e.Server.RedisKey(key))
	e.Server.Rerun(scripts, key, func() { e.Server.Unchanged(key, before) })
	release(e, beside)
	repeated(e, other, key, scripts)
}
