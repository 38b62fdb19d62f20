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
	env.Case("a late copy of a reader's acquire takes nothing", lateReadAcquire, env.TwoSided|env.OnServer|env.Shares),
	env.Case("a late copy of a reader's acquire that its cancel overtook takes nothing", lateReadAfterCancel, env.TwoSided|env.OnServer|env.Shares|env.Sample),
	env.Case("a late copy of a reader's acquire that its cancel overtook queues nothing", lateReadQueueing, env.TwoSided|env.OnServer|env.Shares|env.Sample),
	env.Case("a late copy of a reader's release frees nothing", lateReadRelease, env.TwoSided|env.OnServer|env.Shares|env.Sample),
	env.Case("a late copy of a reader's renewal gives nobody more time", lateReadRenewal, env.TwoSided|env.OnServer|env.Shares),
	env.Case("a late copy of a downgrade changes nothing", lateDowngrade, env.TwoSided|env.OnServer|env.Shares),
	env.Case("every command of a reader, repeated after its release, changes nothing", replayOfReader, env.TwoSided|env.OnServer|env.Shares),
	env.Case("every command of a downgraded hold, repeated after its release, changes nothing", replayOfDowngraded, env.TwoSided|env.OnServer|env.Shares),
	env.Case("every command of a reader that was cancelled, repeated, changes nothing", replayOfCancelledReader, env.TwoSided|env.OnServer|env.Shares),
}

// inEachPhase calls check while nobody has key, while a reader of c has it and while a writer has.
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

func lateReadAcquire(e *env.Env) {
	c, other, key := warmAll(e, e.Client()), e.Client(), e.Key("item")
	late := c.Copied(key, func() { release(e, read(e, c, key)) })
	inEachPhase(e, other, key, func() { e.Server.Arrives(late) })
}

func lateReadAfterCancel(e *env.Env) {
	c, other, key := warmAll(e, e.Client()), e.Client(), e.Key("item")
	late := c.Wire.Withhold(key)
	r := e.Call(e.Ctx, c.Reader(), key)
	e.Caught(late)
	r.Cancel()
	r.Fails(e.Soon, context.Canceled)
	marked(e, key)
	e.Server.Arrives(late)
	late.Break() // Close would wait for the answer
	inEachPhase(e, other, key, func() { e.Server.Arrives(late) })
}

// marked waits until an id of key is marked as over.
func marked(e *env.Env, key string) {
	e.T.Helper()
	e.Eventually(env.Patience, func() string {
		if keys, _ := e.Server.Keys(e.Ctx, e.Server.RedisKey(key)+":done:"); len(keys) > 0 {
			return ""
		}
		return "the cancel did not arrive"
	})
}

func lateReadQueueing(e *env.Env) {
	c, other, key := warmAll(e, e.Client()), e.Client(), e.Key("item")
	writer := write(e, other, key)
	late := c.Wire.Withhold(key)
	r := e.Call(e.Ctx, c.Reader(), key)
	e.Caught(late)
	r.Cancel()
	r.Fails(e.Soon, context.Canceled)
	marked(e, key)
	e.Server.Arrives(late)
	late.Break()
	nobodyQueued(e, key)
	release(e, writer)
	e.Free(other.RW, key)
}

func lateReadRelease(e *env.Env) {
	c, other, key := warmAll(e, e.Client()), e.Client(), e.Key("item")
	ctx, outer := e.Lock(c, e.Key("outer")) // one owner
	inner, first := e.LockWith(ctx, c.Reader(), key)
	late := c.Copied(key, func() { e.Unlock(inner, first) })
	inner, second := e.LockWith(ctx, c.Reader(), key)
	before := e.Server.Show(e.Server.RedisKey(key))
	e.Server.Arrives(late)
	e.Server.Unchanged(key, before)
	e.Busy(other.RW, key)
	e.Unlock(inner, second)
	e.Unlock(ctx, outer)
	inEachPhase(e, other, key, func() { e.Server.Arrives(late) })
}

func lateReadRenewal(e *env.Env) {
	lease := e.Ample(600 * time.Millisecond)
	c, other, key := e.Client(), e.Client(), e.Key("item")
	renewals := make(chan error, 100)
	held := read(e, c, key, lockmw.WithLease(lease), lockmw.WithObserver(&lockmw.Observer{
		Renewed: func(_ context.Context, _ lockmw.Attempt, err error) { renewals <- err },
	}))
	e.Is("the first renewal", env.Renewal(e, renewals), nil)
	late := c.Copied(key, func() { e.Is("the renewal that was sent twice", env.Renewal(e, renewals), nil) })
	release(e, held)
	e.Server.Arrives(late)
	e.Free(other.RW, key)
	next := read(e, other, key, lockmw.WithFixedLease(lease/2))
	before := e.Server.Admin.PTTL(e.Ctx, e.Server.RedisKey(key)).Val()
	e.Server.Arrives(late)
	if after := e.Server.Admin.PTTL(e.Ctx, e.Server.RedisKey(key)).Val(); after > before {
		e.T.Errorf("the next reader's lease went from %v to %v", before, after)
	}
	if n := len(shares(e, key)); n != 1 {
		e.T.Errorf("one reader has %d holds", n)
	}
	release(e, next)
	e.Free(other.RW, key)
}

func lateDowngrade(e *env.Env) {
	c, other, key := warmAll(e, e.Client()), e.Client(), e.Key("item")
	held := write(e, c, key)
	late := c.Copied(key, func() { downgrade(e, c, held) })
	before := e.Server.Show(e.Server.RedisKey(key))
	e.Server.Arrives(late)
	e.Server.Unchanged(key, before)
	release(e, held)
	inEachPhase(e, other, key, func() { e.Server.Arrives(late) })
	held = write(e, c, key, lockmw.WithWait(e.Ample(e.Soon))) // another one of the same process
	before = e.Server.Show(e.Server.RedisKey(key))
	e.Server.Arrives(late)
	e.Server.Unchanged(key, before)
	e.Busy(other.Reader(), key)
	release(e, held)
}

// repeated runs recorded scripts again in each phase.
func repeated(e *env.Env, c *env.Client, key string, scripts []redistest.Command) {
	e.T.Helper()
	inEachPhase(e, c, key, func() {
		before := e.Server.Show(e.Server.RedisKey(key))
		e.Server.Again(scripts, key, func() { e.Server.Unchanged(key, before) })
	})
}

func replayOfReader(e *env.Env) {
	c, other, key := e.Client(), e.Client(), e.Key("item")
	renewed := make(chan struct{}, 100)
	held := read(e, c, key, lockmw.WithLease(e.Ample(600*time.Millisecond)), lockmw.WithObserver(&lockmw.Observer{
		Renewed: func(context.Context, lockmw.Attempt, error) { renewed <- struct{}{} },
	}))
	c.Wire.Record()
	env.Next(e, renewed)
	w := e.Wait(other.RW, key)
	env.Next(e, renewed)
	release(e, held)
	scripts := c.Wire.Sent()
	e.Unlock(w.Gets(e.Soon))
	repeated(e, other, key, scripts)
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
	e.Server.Again(scripts, key, func() { e.Server.Unchanged(key, before) })
	release(e, beside)
	repeated(e, other, key, scripts)
}

func replayOfCancelledReader(e *env.Env) {
	c, other, key := e.Client(), e.Client(), e.Key("item")
	writer := write(e, other, key)
	r := e.Wait(c.Reader(), key)
	readersQueued(e, key, 1)
	c.Wire.Record()
	e.Pass(2 * env.PollInterval) // some polls are to be among the commands
	r.Cancel()
	r.Fails(e.Soon, context.Canceled)
	nobodyQueued(e, key)
	scripts := c.Wire.Sent()
	before := e.Server.Show(e.Server.RedisKey(key))
	e.Server.Again(scripts, key, func() { e.Server.Unchanged(key, before) })
	nobodyQueued(e, key)
	release(e, writer)
	repeated(e, other, key, scripts)
}
