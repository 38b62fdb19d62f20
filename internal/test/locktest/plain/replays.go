package plain

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// Late and repeated commands. go-redis resends a command whose answer is lost. The first copy may stay in an abandoned
// connection and arrive long after its call has ended.
var replays = []env.Scenario{
	env.Case("a late acquire after its release takes nothing", lateAcquireAfterRelease, env.OnServer|env.Shares|env.Sample),
	env.Case("a late acquire after the same owner's return takes nothing", lateAcquireAfterReturn, env.OnServer|env.OneNode|env.Shares|env.Sample),
	env.Case("a late copy of a busy TryLock takes nothing", lateBusyTry, env.OnServer|env.Shares),
	env.Case("a late acquire overtaken by its cancel takes nothing", lateAcquireAfterCancel, env.OnServer|env.OneNode|env.Shares),
	env.Case("a late acquire overtaken by its cancel does not queue", lateQueueingAfterCancel, env.OnServer|env.Shares),
	env.Case("a late release after the same owner's return frees nothing", lateRelease, env.OnServer|env.OneNode|env.Shares|env.Sample),
	env.Case("a late renewal after its release extends nothing", lateRenewal, env.OnServer|env.OneNode|env.Shares),
	env.Case("repeating all commands of a hold changes nothing after its release", replayAfterRelease, env.OnServer|env.OneNode|env.Shares),
	env.Case("repeating all commands of a hold changes nothing after the same owner's return", replayAfterReturn, env.OnServer|env.OneNode|env.Shares),
	env.Case("repeating all commands of a ticket changes nothing after its cancel", replayAfterCancel, env.OnServer|env.OneNode|env.Shares),
	env.Case("outdated messages grant nothing", replayOfMessages, env.OnServer|env.OneServer|env.Shares),
}

func lateAcquireAfterRelease(e *env.Env) {
	c, other, key := e.Client().Warm(), e.Client(), e.Key("user")
	late := c.Copied(key, func() { e.Unlock(e.Lock(c, key)) })
	e.Server.Deliver(late)
	e.Free(other, key)
}

func lateAcquireAfterReturn(e *env.Env) {
	c, other, key := e.Client().Warm(), e.Client(), e.Key("user")
	ctx, outer := e.Lock(c, e.Key("outer")) // the owner takes the key twice
	late := c.Copied(key, func() {
		inner, first := e.LockWith(ctx, c, key)
		e.Unlock(inner, first)
	})
	inner, second := e.LockWith(ctx, c, key)
	before := e.Server.Show(e.Server.RedisKey(key))
	e.Server.Deliver(late)
	e.Server.Unchanged(key, before)
	e.Busy(other, key)
	e.Unlock(inner, second)
	e.Free(other, key)
	e.Unlock(ctx, outer)
}

func lateBusyTry(e *env.Env) {
	c, other, key := e.Client().Warm(), e.Client(), e.Key("user")
	ctx, held := e.Lock(other, key)
	late := c.Copied(key, func() { e.Busy(c, key) })
	e.Unlock(ctx, held)
	e.Server.Deliver(late)
	e.Free(other, key)
}

func lateAcquireAfterCancel(e *env.Env) {
	c, other, key := e.Client().Warm(), e.Client(), e.Key("user")
	late := c.Wire.Withhold(key)
	w := e.Call(e.Ctx, c, key)
	e.Caught(late)
	w.Cancel()
	w.Fails(e.Soon, context.Canceled)
	e.Free(other, key) // whether or not the cancel has arrived
	e.Eventually(env.Patience, func() string {
		if keys, _ := e.Server.Keys(e.Ctx, e.Server.RedisKey(key)+":done:"); len(keys) > 0 {
			return ""
		}
		return "the cancel did not arrive"
	})
	e.Server.Deliver(late)
	late.Break() // Close would wait for the answer
	e.Free(other, key)
}

func lateQueueingAfterCancel(e *env.Env) {
	c, other, key := e.Client().Warm(), e.Client(), e.Key("user")
	ctx, held := e.Lock(other, key)
	late := c.Wire.Withhold(key)
	w := e.Call(e.Ctx, c.Rival, key)
	e.Caught(late)
	w.Cancel()
	w.Fails(e.Soon, context.Canceled)
	e.Eventually(env.Patience, func() string {
		if keys, _ := e.Server.Keys(e.Ctx, e.Server.RedisKey(key)+":done:"); len(keys) > 0 {
			return ""
		}
		return "the cancel did not arrive"
	})
	e.Server.Deliver(late)
	late.Break()
	if n := e.Server.Admin.ZCard(e.Ctx, e.Server.QueueKey(key)).Val(); n != 0 {
		e.T.Errorf("%d tickets are queued", n)
	}
	e.Unlock(ctx, held)
	e.Free(other, key)
}

func lateRelease(e *env.Env) {
	c, other, key := e.Client().Warm(), e.Client(), e.Key("user")
	ctx, outer := e.Lock(c, e.Key("outer"))
	inner, first := e.LockWith(ctx, c, key)
	late := c.Copied(key, func() { e.Unlock(inner, first) })
	inner, second := e.LockWith(ctx, c, key)
	before := e.Server.Show(e.Server.RedisKey(key))
	e.Server.Deliver(late)
	e.Server.Unchanged(key, before)
	e.Busy(other, key)
	e.Unlock(inner, second)
	e.Unlock(ctx, outer)
}

func lateRenewal(e *env.Env) {
	lease := e.Ample(600 * time.Millisecond)
	c, other, key := e.Client(), e.Client(), e.Key("user")
	renewed := make(chan error, 100)
	ctx, held := e.Lock(c, key, lockmw.WithLease(lease), lockmw.WithObserver(&lockmw.Observer{
		Renewed: func(_ context.Context, _ lockmw.Attempt, err error) { renewed <- err },
	}))
	e.Is("the first renewal", env.Renewal(e, renewed), nil)
	late := c.Copied(key, func() { e.Is("the resent renewal", env.Renewal(e, renewed), nil) })
	e.Unlock(ctx, held)
	e.Server.Deliver(late)
	e.Free(other, key)

	ctx, held = e.Lock(other, key, lockmw.WithFixedLease(lease/2), lockmw.WithWait(e.Ample(e.Soon)))
	before := e.Server.Admin.PTTL(e.Ctx, e.Server.RedisKey(key)).Val()
	e.Server.Deliver(late)
	if after := e.Server.Admin.PTTL(e.Ctx, e.Server.RedisKey(key)).Val(); after > before {
		e.T.Errorf("the next hold's lease changed from %v to %v", before, after)
	}
	e.Unlock(ctx, held)
}

// recordHold takes key, renews it and releases it. It returns all scripts of the hold except the acquire, which is not resent
// after its answer has arrived.
func recordHold(e *env.Env, ctx context.Context, c *env.Client, key string) []redistest.Command {
	e.T.Helper()
	renewed := make(chan struct{}, 100)
	inner, held := e.LockWith(ctx, c, key, lockmw.WithLease(e.Ample(600*time.Millisecond)), lockmw.WithObserver(&lockmw.Observer{
		Renewed: func(context.Context, lockmw.Attempt, error) { renewed <- struct{}{} },
	}))
	c.Wire.Record()
	env.Next(e, renewed)
	env.Next(e, renewed)
	e.Unlock(inner, held)
	return c.Wire.Sent()
}

func replayAfterRelease(e *env.Env) {
	c, other, key := e.Client(), e.Client(), e.Key("user")
	scripts := recordHold(e, e.Ctx, c, key)
	e.Server.Rerun(scripts, key, func() { e.Free(other, key) })
	ctx, held := e.Lock(other, key)
	before := e.Server.Show(e.Server.RedisKey(key))
	e.Server.Rerun(scripts, key, func() { e.Server.Unchanged(key, before) })
	e.Unlock(ctx, held)
}

func replayAfterReturn(e *env.Env) {
	c, other, key := e.Client(), e.Client(), e.Key("user")
	ctx, outer := e.Lock(c, e.Key("outer"))
	scripts := recordHold(e, ctx, c, key)
	inner, held := e.LockWith(ctx, c, key)
	before := e.Server.Show(e.Server.RedisKey(key))
	e.Server.Rerun(scripts, key, func() {
		e.Server.Unchanged(key, before)
		e.Busy(other, key)
	})
	e.Unlock(inner, held)
	e.Unlock(ctx, outer)
}

func replayAfterCancel(e *env.Env) {
	c, other, key := e.Client(), e.Client(), e.Key("user")
	ctx, held := e.Lock(other, key)
	w := e.Wait(c, key)
	queue := e.Server.QueueKey(key)
	e.Eventually(env.Patience, func() string {
		if e.Server.Admin.ZCard(e.Ctx, queue).Val() == 1 {
			return ""
		}
		return "want one ticket"
	})
	c.Wire.Record()
	time.Sleep(2 * env.PollInterval) // so that polls are among the commands
	w.Cancel()
	w.Fails(e.Soon, context.Canceled)
	e.Eventually(env.Patience, func() string {
		if n := e.Server.Admin.ZCard(e.Ctx, queue).Val(); n != 0 {
			return fmt.Sprintf("%d tickets are queued", n)
		}
		return ""
	})
	scripts := c.Wire.Sent()
	before := e.Server.Show(e.Server.RedisKey(key))
	check := func() {
		e.Server.Unchanged(key, before)
		if n := e.Server.Admin.Exists(e.Ctx, queue).Val(); n != 0 {
			e.T.Error("a ticket is queued")
		}
	}
	e.Server.Rerun(scripts, key, check)
	e.Unlock(ctx, held)
	e.Server.Rerun(scripts, key, func() { e.Free(other, key) })
}

func replayOfMessages(e *env.Env) {
	a, b, key := e.Client(), e.Client(), e.Key("user")
	heard := e.Server.Admin.PSubscribe(e.Ctx, e.Server.Prefix+":*")
	defer heard.Close()
	if _, err := heard.Receive(e.Ctx); err != nil { // subscribed
		e.T.Fatal(err)
	}
	arriving := heard.Channel() // read immediately: miniredis waits for its subscribers
	for range 2 {               // both receive a grant by a message
		ctx, held := e.Lock(a, key)
		w := e.Wait(b, key)
		e.Server.TicketsQueued(key, 1)
		e.Unlock(ctx, held)
		e.Unlock(w.Gets(e.Soon))
		e.Free(a, key)
		a, b = b, a
	}
	messages := []*redis.Message{}
	for quiet := time.After(e.Soon); quiet != nil; {
		select {
		case m := <-arriving:
			messages = append(messages, m)
		case <-quiet:
			quiet = nil
		}
	}
	if len(messages) < 2 {
		e.T.Fatalf("received %d messages", len(messages))
	}

	ctx, held := e.Lock(a, key)
	w := e.Wait(b, key)
	before := e.Server.Show(e.Server.RedisKey(key))
	for _, m := range messages {
		if err := e.Server.Admin.Publish(e.Ctx, m.Channel, m.Payload).Err(); err != nil {
			e.T.Fatal(err)
		}
	}
	time.Sleep(2 * env.PollInterval) // long enough for any effect
	w.IsWaiting()
	e.Server.Unchanged(key, before)
	e.Unlock(ctx, held)
	e.Unlock(w.Gets(e.Soon))
}
