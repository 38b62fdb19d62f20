package locktest

import (
	"context"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// Late and repeated commands of both sides.
var readWriteReplays = []scenario{
	{"a late copy of a reader's acquire takes nothing", lateReadAcquire, twoSided | server | shares},
	{"a late copy of a reader's acquire that its cancel overtook takes nothing", lateReadAfterCancel, twoSided | server | shares | sample},
	{"a late copy of a reader's acquire that its cancel overtook queues nothing", lateReadQueueing, twoSided | server | shares | sample},
	{"a late copy of a reader's release frees nothing", lateReadRelease, twoSided | server | shares | sample},
	{"a late copy of a reader's renewal gives nobody more time", lateReadRenewal, twoSided | server | shares},
	{"a late copy of a downgrade changes nothing", lateDowngrade, twoSided | server | shares},
	{"every command of a reader, repeated after its release, changes nothing", replayOfReader, twoSided | server | shares},
	{"every command of a downgraded hold, repeated after its release, changes nothing", replayOfDowngraded, twoSided | server | shares},
	{"every command of a reader that was cancelled, repeated, changes nothing", replayOfCancelledReader, twoSided | server | shares},
}

// inEachPhase calls check while nobody has key, while a reader of c has it and while a writer has.
func (e *env) inEachPhase(c *client, key string, check func()) {
	e.t.Helper()
	check()
	e.free(c.rw, key)
	for _, l := range []lockmw.Locker{c.reader(), c.rw} {
		ctx, held := e.lock(l, key, lockmw.WithWait(e.soon))
		before := e.show(e.redisKey(key))
		check()
		e.unchanged(key, before)
		e.unlock(ctx, held)
		e.free(c.rw, key)
	}
}

func lateReadAcquire(e *env) {
	c, other, key := e.warmAll(e.client()), e.client(), e.key("item")
	late := e.copied(c, key, func() { e.release(e.read(c, key)) })
	e.inEachPhase(other, key, func() { e.arrives(late) })
}

func lateReadAfterCancel(e *env) {
	c, other, key := e.warmAll(e.client()), e.client(), e.key("item")
	late := c.wire.Withhold(key)
	r := e.call(e.ctx, c.reader(), key)
	e.caught(late)
	r.cancel()
	r.fails(e.soon, context.Canceled)
	e.marked(key)
	e.arrives(late)
	late.Break() // Close would wait for the answer
	e.inEachPhase(other, key, func() { e.arrives(late) })
}

// marked waits until an id of key is marked as over.
func (e *env) marked(key string) {
	e.t.Helper()
	e.eventually(patience, func() string {
		if keys, _ := e.server.Keys(e.ctx, e.admin, e.redisKey(key)+":done:"); len(keys) > 0 {
			return ""
		}
		return "the cancel did not arrive"
	})
}

func lateReadQueueing(e *env) {
	c, other, key := e.warmAll(e.client()), e.client(), e.key("item")
	writer := e.write(other, key)
	late := c.wire.Withhold(key)
	r := e.call(e.ctx, c.reader(), key)
	e.caught(late)
	r.cancel()
	r.fails(e.soon, context.Canceled)
	e.marked(key)
	e.arrives(late)
	late.Break()
	e.nobodyQueued(key)
	e.release(writer)
	e.free(other.rw, key)
}

func lateReadRelease(e *env) {
	c, other, key := e.warmAll(e.client()), e.client(), e.key("item")
	ctx, outer := e.lock(c, e.key("outer")) // one owner
	inner, first := e.lockWith(ctx, c.reader(), key)
	late := e.copied(c, key, func() { e.unlock(inner, first) })
	inner, second := e.lockWith(ctx, c.reader(), key)
	before := e.show(e.redisKey(key))
	e.arrives(late)
	e.unchanged(key, before)
	e.busy(other.rw, key)
	e.unlock(inner, second)
	e.unlock(ctx, outer)
	e.inEachPhase(other, key, func() { e.arrives(late) })
}

func lateReadRenewal(e *env) {
	const lease = 900 * time.Millisecond
	c, other, key := e.client(), e.client(), e.key("item")
	renewals := make(chan error, 100)
	held := e.read(c, key, lockmw.WithLease(lease), lockmw.WithObserver(&lockmw.Observer{
		Renewed: func(_ context.Context, _ lockmw.Attempt, err error) { renewals <- err },
	}))
	e.is("the first renewal", next(e, renewals), nil)
	late := e.copied(c, key, func() { e.is("the renewal that was sent twice", next(e, renewals), nil) })
	e.release(held)
	e.arrives(late)
	e.free(other.rw, key)
	next := e.read(other, key, lockmw.WithFixedLease(lease/2))
	before := e.admin.PTTL(e.ctx, e.redisKey(key)).Val()
	e.arrives(late)
	if after := e.admin.PTTL(e.ctx, e.redisKey(key)).Val(); after > before {
		e.t.Errorf("the next reader's lease went from %v to %v", before, after)
	}
	if n := len(e.shares(key)); n != 1 {
		e.t.Errorf("one reader has %d holds", n)
	}
	e.release(next)
	e.free(other.rw, key)
}

func lateDowngrade(e *env) {
	c, other, key := e.warmAll(e.client()), e.client(), e.key("item")
	held := e.write(c, key)
	late := e.copied(c, key, func() { e.downgrade(c, held) })
	before := e.show(e.redisKey(key))
	e.arrives(late)
	e.unchanged(key, before)
	e.release(held)
	e.inEachPhase(other, key, func() { e.arrives(late) })
	held = e.write(c, key, lockmw.WithWait(e.soon)) // another one of the same process
	before = e.show(e.redisKey(key))
	e.arrives(late)
	e.unchanged(key, before)
	e.busy(other.reader(), key)
	e.release(held)
}

// repeated runs recorded scripts again in each phase.
func (e *env) repeated(c *client, key string, scripts []redistest.Command) {
	e.t.Helper()
	e.inEachPhase(c, key, func() {
		before := e.show(e.redisKey(key))
		e.again(scripts, key, func() { e.unchanged(key, before) })
	})
}

func replayOfReader(e *env) {
	c, other, key := e.client(), e.client(), e.key("item")
	renewed := make(chan struct{}, 100)
	held := e.read(c, key, lockmw.WithLease(900*time.Millisecond), lockmw.WithObserver(&lockmw.Observer{
		Renewed: func(context.Context, lockmw.Attempt, error) { renewed <- struct{}{} },
	}))
	c.wire.Record()
	next(e, renewed)
	w := e.wait(other.rw, key)
	next(e, renewed)
	e.release(held)
	scripts := c.wire.Sent()
	e.unlock(w.gets(e.soon))
	e.repeated(other, key, scripts)
}

func replayOfDowngraded(e *env) {
	c, other, key := e.client(), e.client(), e.key("item")
	renewed := make(chan struct{}, 100)
	held := e.write(c, key, lockmw.WithLease(900*time.Millisecond), lockmw.WithObserver(&lockmw.Observer{
		Renewed: func(context.Context, lockmw.Attempt, error) { renewed <- struct{}{} },
	}))
	c.wire.Record()
	next(e, renewed)
	reader := e.wait(other.reader(), key)
	e.downgrade(c, held)
	next(e, renewed)
	next(e, renewed)
	_, beside := reader.gets(e.soon)
	e.release(held)
	scripts := c.wire.Sent()
	before := e.show(e.redisKey(key))
	e.again(scripts, key, func() { e.unchanged(key, before) })
	e.release(beside)
	e.repeated(other, key, scripts)
}

func replayOfCancelledReader(e *env) {
	c, other, key := e.client(), e.client(), e.key("item")
	writer := e.write(other, key)
	r := e.wait(c.reader(), key)
	e.readersQueued(key, 1)
	c.wire.Record()
	e.pass(2 * pollInterval) // some polls are to be among the commands
	r.cancel()
	r.fails(e.soon, context.Canceled)
	e.nobodyQueued(key)
	scripts := c.wire.Sent()
	before := e.show(e.redisKey(key))
	e.again(scripts, key, func() { e.unchanged(key, before) })
	e.nobodyQueued(key)
	e.release(writer)
	e.repeated(other, key, scripts)
}
