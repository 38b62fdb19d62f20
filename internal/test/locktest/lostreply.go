package locktest

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

var lostReplies = []scenario{
	{"of an acquire counts once", lostAcquire, server | shares | sample},
	{"of a nested acquire cannot be, as nothing is sent", lostNested, server | shares | sample},
	{"of a release is no ErrNotHeld", lostRelease, server | shares | sample},
	{"of a renewal keeps the hold", lostRenewal, server | shares},
	{"of a queueing acquire makes one ticket", lostQueueing, server | shares},
	{"of a cancel leaves no ticket", lostCancel, server | alone},
	{"without repetition undoes the acquire", lostForGood, server | shares},
}

// caught waits until a fault has met its command.
func (e *env) caught(f *redistest.Fault) {
	e.t.Helper()
	select {
	case <-f.Caught():
	case <-time.After(patience):
		e.t.Fatal("the command to disturb was not sent")
	}
}

func lostAcquire(e *env) {
	c, other, key := e.warm(e.client()), e.client(), e.key("user")
	fault := c.wire.LoseReply(key)
	ctx, held := e.lock(c, key)
	e.caught(fault)
	e.busy(other, key)
	e.unlock(ctx, held)
	e.free(other, key)
}

func lostNested(e *env) {
	c, other, key := e.warm(e.client()), e.client(), e.key("user")
	ctx, held := e.lock(c, key)
	fault := c.wire.LoseReply(key)
	_, nested, err := c.Lock(ctx, key)
	if err != nil {
		e.t.Fatal(err)
	}
	if err := nested.Unlock(); err != nil {
		e.t.Errorf("Unlock of the nested hold: %v", err)
	}
	e.busy(other, key)
	e.unlock(ctx, held) // this is the command that the fault meets
	e.caught(fault)
	e.free(other, key)
}

func lostRelease(e *env) {
	c, other, key := e.warm(e.client()), e.client(), e.key("user")
	for range 10 {
		ctx, held := e.lock(c, key, lockmw.WithWait(e.soon))
		fault := c.wire.LoseReply(key)
		e.unlock(ctx, held)
		e.caught(fault)
		e.free(other, key)
	}
}

func lostRenewal(e *env) {
	const lease = 3 * time.Second // a try to renew is given up after a sixth
	c, other, key := e.client(), e.client(), e.key("user")
	renewed := make(chan error, 100)
	ctx, held := e.lock(c, key, lockmw.WithLease(lease), lockmw.WithObserver(&lockmw.Observer{
		Renewed: func(_ context.Context, _ lockmw.Attempt, err error) { renewed <- err },
	}))
	for range 4 {
		if err := next(e, renewed); err != nil {
			e.t.Errorf("a renewal: %v", err)
		}
		e.caught(c.wire.LoseReply(key))
	}
	if err := ctx.Err(); err != nil {
		e.t.Errorf("the hold has ended: %v", context.Cause(ctx))
	}
	e.busy(other, key)
	e.unlock(ctx, held)
	e.free(other, key)
}

func lostQueueing(e *env) {
	c, other, key := e.warm(e.client()), e.client(), e.key("user")
	ctx, held := e.lock(other, key)
	fault := c.wire.LoseReply(key)
	w := e.wait(c, key)
	e.caught(fault)
	e.eventually(patience, func() string { // the repetition may still be under way
		if n := e.admin.ZCard(e.ctx, e.redisKey(key)+":queue").Val(); n != 1 {
			return "there is not one ticket"
		}
		return ""
	})
	e.unlock(ctx, held)
	e.unlock(w.gets(e.soon))
	e.free(other, key)
}

func lostCancel(e *env) {
	c, other := e.warm(e.client()), e.client()
	for range 2 { // at first what gets lost is that the server does not know the script
		e.losesCancel(c, other, e.key("user"))
	}
}

func (e *env) losesCancel(c, other *client, key string) {
	e.t.Helper()
	ctx, held := e.lock(other, key)
	w := e.wait(c, key)
	e.eventually(patience, func() string {
		if e.admin.ZCard(e.ctx, e.redisKey(key)+":queue").Val() != 1 {
			return "there is not one ticket"
		}
		return ""
	})
	fault := c.wire.LoseReply(key)
	w.cancel()
	w.fails(e.soon, context.Canceled)
	e.caught(fault)
	e.unlock(ctx, held)
	e.free(other, key)
}

func lostForGood(e *env) {
	once := func(o *redis.Options) { o.MaxRetries = -1 }
	c, other, key := e.warm(e.clientOver(once)), e.client(), e.key("user")
	faults := []*redistest.Fault{c.wire.LoseReply(key), c.wire.LoseReply(key)} // the Client may try again by itself
	_, hold, err := c.Lock(e.ctx, key)
	if err == nil {
		e.t.Fatalf("two answers are lost, and it has the lock: %v", hold.Unlock())
	}
	e.is("Lock whose answer is lost", err, lockmw.ErrUnavailable)
	if errors.Is(err, lockmw.ErrBusy) {
		e.t.Errorf("a fault of the connection is told as a lost race: %v", err)
	}
	for _, fault := range faults {
		e.caught(fault)
	}
	e.free(other, key)
}
