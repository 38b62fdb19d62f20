package locktest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// Late and repeated commands: go-redis repeats one whose answer is lost, and the first copy may lie
// in an abandoned connection until long after what it was sent for is over.
var replays = []scenario{
	{"of an acquire after its release takes nothing", lateAcquireAfterRelease, server | shares | sample},
	{"of an acquire after the same owner came back takes nothing", lateAcquireAfterReturn, server | shares | sample},
	{"of a try that found the lock busy takes nothing", lateBusyTry, server | shares},
	{"of an acquire that its cancel overtook takes nothing", lateAcquireAfterCancel, server | shares},
	{"of an acquire that its cancel overtook queues nothing", lateQueueingAfterCancel, server | shares},
	{"of a release after the same owner came back frees nothing", lateRelease, server | shares | sample},
	{"of a renewal gives nobody more time", lateRenewal, server | shares},
	{"of every command of a hold after its release changes nothing", replayAfterRelease, server | shares},
	{"of every command of a hold after the same owner came back changes nothing", replayAfterReturn, server | shares},
	{"of every command of a ticket after it was cancelled changes nothing", replayAfterCancel, server | shares},
	{"of every message after what it was about is over starts nobody", replayOfMessages, server | shares},
}

// copied calls do while the first copy of the command that it sends about key is withheld: the
// client finds its connection broken and sends a second one.
func (e *env) copied(c *client, key string, do func()) *redistest.Fault {
	e.t.Helper()
	fault := c.wire.Withhold(key)
	broken := make(chan struct{})
	go func() {
		defer close(broken)
		fault.Break()
	}()
	do()
	e.caught(fault)
	<-broken
	return fault
}

func (e *env) arrives(late *redistest.Fault) {
	e.t.Helper()
	if answer, err := late.Send(e.ctx); err != nil {
		e.t.Fatalf("the late command: %q, %v", answer, err)
	}
}

func lateAcquireAfterRelease(e *env) {
	c, other, key := e.warm(e.client()), e.client(), e.key("user")
	late := e.copied(c, key, func() { e.unlock(e.lock(c, key)) })
	e.arrives(late)
	e.free(other, key)
}

func lateAcquireAfterReturn(e *env) {
	c, other, key := e.warm(e.client()), e.client(), e.key("user")
	ctx, outer := e.lock(c, e.key("outer")) // its owner takes the key twice
	late := e.copied(c, key, func() {
		inner, first := e.lockWith(ctx, c, key)
		e.unlock(inner, first)
	})
	inner, second := e.lockWith(ctx, c, key)
	before := e.show(e.redisKey(key))
	e.arrives(late)
	e.unchanged(key, before)
	e.busy(other, key)
	e.unlock(inner, second)
	e.free(other, key)
	e.unlock(ctx, outer)
}

func lateBusyTry(e *env) {
	c, other, key := e.warm(e.client()), e.client(), e.key("user")
	ctx, held := e.lock(other, key)
	late := e.copied(c, key, func() { e.busy(c, key) })
	e.unlock(ctx, held)
	e.arrives(late)
	e.free(other, key)
}

// unchanged checks that key's holder is as it was, apart from the time that passes.
func (e *env) unchanged(key, before string) {
	e.t.Helper()
	if now := e.show(e.redisKey(key)); cutTTL(now) != cutTTL(before) {
		e.t.Errorf("the holder was %s and is %s", before, now)
	}
}

func cutTTL(shown string) string {
	return shown[:strings.LastIndexByte(shown, ' ')+1]
}

func lateAcquireAfterCancel(e *env) {
	c, other, key := e.warm(e.client()), e.client(), e.key("user")
	late := c.wire.Withhold(key)
	w := e.call(e.ctx, c, key)
	e.caught(late)
	w.cancel()
	w.fails(e.soon, context.Canceled)
	e.free(other, key) // the cancel may or may not have arrived
	e.eventually(patience, func() string {
		if keys, _ := e.server.Keys(e.ctx, e.admin, e.redisKey(key)+":done:"); len(keys) > 0 {
			return ""
		}
		return "the cancel did not arrive"
	})
	e.arrives(late)
	late.Break() // Close would wait for the answer
	e.free(other, key)
}

func lateQueueingAfterCancel(e *env) {
	c, other, key := e.warm(e.client()), e.client(), e.key("user")
	ctx, held := e.lock(other, key)
	late := c.wire.Withhold(key)
	w := e.call(e.ctx, c.rival, key)
	e.caught(late)
	w.cancel()
	w.fails(e.soon, context.Canceled)
	e.eventually(patience, func() string {
		if keys, _ := e.server.Keys(e.ctx, e.admin, e.redisKey(key)+":done:"); len(keys) > 0 {
			return ""
		}
		return "the cancel did not arrive"
	})
	e.arrives(late)
	late.Break()
	if n := e.admin.ZCard(e.ctx, e.redisKey(key)+":queue").Val(); n != 0 {
		e.t.Errorf("%d tickets are queued", n)
	}
	e.unlock(ctx, held)
	e.free(other, key)
}

func lateRelease(e *env) {
	c, other, key := e.warm(e.client()), e.client(), e.key("user")
	ctx, outer := e.lock(c, e.key("outer"))
	inner, first := e.lockWith(ctx, c, key)
	late := e.copied(c, key, func() { e.unlock(inner, first) })
	inner, second := e.lockWith(ctx, c, key)
	before := e.show(e.redisKey(key))
	e.arrives(late)
	e.unchanged(key, before)
	e.busy(other, key)
	e.unlock(inner, second)
	e.unlock(ctx, outer)
}

func lateRenewal(e *env) {
	const lease = 900 * time.Millisecond
	c, other, key := e.client(), e.client(), e.key("user")
	renewed := make(chan error, 100)
	ctx, held := e.lock(c, key, lockmw.WithLease(lease), lockmw.WithObserver(&lockmw.Observer{
		Renewed: func(_ context.Context, _ lockmw.Attempt, err error) { renewed <- err },
	}))
	e.is("the first renewal", next(e, renewed), nil)
	late := e.copied(c, key, func() { e.is("the renewal that was sent twice", next(e, renewed), nil) })
	e.unlock(ctx, held)
	e.arrives(late)
	e.free(other, key)

	ctx, held = e.lock(other, key, lockmw.WithFixedLease(lease/2), lockmw.WithWait(e.soon))
	before := e.admin.PTTL(e.ctx, e.redisKey(key)).Val()
	e.arrives(late)
	if after := e.admin.PTTL(e.ctx, e.redisKey(key)).Val(); after > before {
		e.t.Errorf("the next hold's lease went from %v to %v", before, after)
	}
	e.unlock(ctx, held)
}

// again runs every recorded script about key once more, after each of which check is called.
func (e *env) again(commands []redistest.Command, key string, check func()) {
	e.t.Helper()
	n := 0
	for _, c := range commands {
		if !c.IsScript() || !c.Concerns(key) {
			continue
		}
		n++
		if _, err := c.Run(e.ctx, e.admin); err != nil {
			e.t.Errorf("run again: %v", err)
		}
		if check(); e.t.Failed() {
			e.t.Fatalf("after %s of %d words, the last ones %q", c[0], len(c), c[max(0, len(c)-6):])
		}
	}
	if n == 0 {
		e.t.Error("nothing was recorded")
	}
}

// aHold takes key, has it renewed, passes it on within the process, releases it, and returns the
// scripts of all that but the acquire: that is not sent again after its answer arrived.
func (e *env) aHold(ctx context.Context, c *client, key string) []redistest.Command {
	e.t.Helper()
	renewed := make(chan struct{}, 100)
	inner, held := e.lockWith(ctx, c, key, lockmw.WithLease(900*time.Millisecond), lockmw.WithObserver(&lockmw.Observer{
		Renewed: func(context.Context, lockmw.Attempt, error) { renewed <- struct{}{} },
	}))
	c.wire.Record()
	next(e, renewed)
	next(e, renewed)
	e.unlock(inner, held)
	return c.wire.Sent()
}

func replayAfterRelease(e *env) {
	c, other, key := e.client(), e.client(), e.key("user")
	scripts := e.aHold(e.ctx, c, key)
	e.again(scripts, key, func() { e.free(other, key) })
	ctx, held := e.lock(other, key)
	before := e.show(e.redisKey(key))
	e.again(scripts, key, func() { e.unchanged(key, before) })
	e.unlock(ctx, held)
}

func replayAfterReturn(e *env) {
	c, other, key := e.client(), e.client(), e.key("user")
	ctx, outer := e.lock(c, e.key("outer"))
	scripts := e.aHold(ctx, c, key)
	inner, held := e.lockWith(ctx, c, key)
	before := e.show(e.redisKey(key))
	e.again(scripts, key, func() {
		e.unchanged(key, before)
		e.busy(other, key)
	})
	e.unlock(inner, held)
	e.unlock(ctx, outer)
}

func replayAfterCancel(e *env) {
	c, other, key := e.client(), e.client(), e.key("user")
	ctx, held := e.lock(other, key)
	w := e.wait(c, key)
	queue := e.redisKey(key) + ":queue"
	e.eventually(patience, func() string {
		if e.admin.ZCard(e.ctx, queue).Val() == 1 {
			return ""
		}
		return "there is not one ticket"
	})
	c.wire.Record()
	time.Sleep(2 * pollInterval) // some polls are to be among the commands
	w.cancel()
	w.fails(e.soon, context.Canceled)
	e.eventually(patience, func() string {
		if n := e.admin.ZCard(e.ctx, queue).Val(); n != 0 {
			return fmt.Sprintf("%d tickets are queued", n)
		}
		return ""
	})
	scripts := c.wire.Sent()
	before := e.show(e.redisKey(key))
	check := func() {
		e.unchanged(key, before)
		if n := e.admin.Exists(e.ctx, queue).Val(); n != 0 {
			e.t.Error("a ticket is queued")
		}
	}
	e.again(scripts, key, check)
	e.unlock(ctx, held)
	e.again(scripts, key, func() { e.free(other, key) })
}

func replayOfMessages(e *env) {
	a, b, key := e.client(), e.client(), e.key("user")
	heard := e.admin.PSubscribe(e.ctx, e.prefix+":*")
	defer heard.Close()
	if _, err := heard.Receive(e.ctx); err != nil { // it is subscribed
		e.t.Fatal(err)
	}
	arriving := heard.Channel() // from now on it is read: miniredis waits for its subscribers
	for range 2 {               // both become holders by a message
		ctx, held := e.lock(a, key)
		w := e.wait(b, key)
		e.ticketsQueued(key, 1)
		e.unlock(ctx, held)
		e.unlock(w.gets(e.soon))
		e.free(a, key)
		a, b = b, a
	}
	messages := []*redis.Message{}
	for quiet := time.After(e.soon); quiet != nil; {
		select {
		case m := <-arriving:
			messages = append(messages, m)
		case <-quiet:
			quiet = nil
		}
	}
	if len(messages) < 2 {
		e.t.Fatalf("heard %d messages", len(messages))
	}

	ctx, held := e.lock(a, key)
	w := e.wait(b, key)
	before := e.show(e.redisKey(key))
	for _, m := range messages {
		if err := e.admin.Publish(e.ctx, m.Channel, m.Payload).Err(); err != nil {
			e.t.Fatal(err)
		}
	}
	time.Sleep(2 * pollInterval) // long enough for what they might start
	w.isWaiting()
	e.unchanged(key, before)
	e.unlock(ctx, held)
	e.unlock(w.gets(e.soon))
}
