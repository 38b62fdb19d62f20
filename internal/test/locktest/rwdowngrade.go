package locktest

import (
	"context"
	"errors"
	"time"

	"github.com/lockmw/go/lockmw"
)

var downgrades = []scenario{
	{"a downgrade lets in the readers that wait, and no writer", downgradeAdmits, twoSided | shares | sample},
	{"a downgrade lets in 300 readers that wait", downgradeAdmitsMany, twoSided | shares},
	{"a downgrade lets in readers that come later", downgradeAlone, twoSided | shares | sample},
	{"a downgraded hold is renewed, and lost when that fails", downgradedIsRenewed, twoSided | server | shares},
	{"a downgraded hold keeps its fixed lease", downgradedEnds, twoSided | shares},
	{"a downgrade of nested holds takes effect with the last of them", downgradeNested, twoSided | shares | sample},
	{"a downgrade of what cannot be is refused and changes nothing", downgradeRefused, twoSided | shares},
	{"a downgrade of a lost hold is refused and leaves the next holder alone", downgradeLost, twoSided | shares},
	{"a downgrade of a hold that the server has no more is refused", downgradeGone, twoSided | server | shares},
	{"a downgrade that nobody confirms can be repeated", downgradeUnconfirmed, twoSided | server | shares},
	{"a downgrade does not outlast its context", downgradeSilent, twoSided | server | shares},
}

// downgrade makes a hold one that reads.
func (e *env) downgrade(c *client, h *Held) {
	e.t.Helper()
	if err := h.Share(func() error { return c.rw.Downgrade(e.ctx, h.Hold) }); err != nil {
		e.t.Errorf("Downgrade: %v", err)
	}
}

func downgradeAdmits(e *env) {
	clients, key := e.clients(3), e.key("item")
	ctx, held := e.lock(clients[0].rw, key)
	writer := e.wait(clients[1].rw, key) // was there before them
	readers := []*waiter{
		e.wait(clients[0].reader(), key), e.wait(clients[1].reader(), key), e.wait(clients[2].reader(), key),
	}
	last := e.wait(clients[2].rw, key)
	token := held.Token()
	holds := e.admitted(len(readers), func() { e.downgrade(clients[0], held) }, readers)
	for _, h := range append(holds, held) {
		if h.Token() != token {
			e.t.Errorf("the writer's token was %d, the readers have %d", token, h.Token())
		}
	}
	if err := ctx.Err(); err != nil {
		e.t.Errorf("the downgraded hold has ended: %v", context.Cause(ctx))
	}
	late := e.behind(clients[0], key) // behind the writers
	e.release(holds...)
	writer.isWaiting()
	last.isWaiting()
	e.unlock(ctx, held)
	_, next := writer.gets(e.soon)
	if next.nth != 2+len(readers) {
		e.t.Errorf("the next writer was grant %d", next.nth)
	}
	e.release(next)
	e.unlock(late.gets(e.soon))
	e.unlock(last.gets(e.soon))
}

func downgradeAdmitsMany(e *env) {
	const n = 300
	clients, key := e.clients(4), e.key("item")
	held := e.write(clients[0], key)
	writer := e.wait(clients[1].rw, key)
	readers := make([]*waiter, n)
	for i := range readers {
		lease := time.Minute + time.Duration(i)*time.Second // of their own: they share no place in the queue
		readers[i] = e.wait(clients[i%len(clients)].reader(), key, lockmw.WithLease(lease))
	}
	holds := e.admitted(n, func() { e.downgrade(clients[0], held) }, readers)
	writer.isWaiting()
	e.release(holds...)
	e.release(held)
	e.unlock(writer.gets(e.soon))
}

func downgradeAlone(e *env) {
	c, other, key := e.client(), e.client(), e.key("item")
	held := e.write(c, key)
	e.busy(other.reader(), key)
	e.downgrade(c, held)
	e.busy(other.rw, key)
	for _, l := range []*client{c, other} {
		e.free(l.reader(), key)
	}
	e.release(held)
	e.free(other.rw, key)
}

func downgradedIsRenewed(e *env) {
	const lease = 200 * time.Millisecond
	c, other, key := e.client(), e.client(), e.key("item")
	ctx, held := e.lock(c.rw, key, lockmw.WithLease(lease))
	e.downgrade(c, held)
	e.pass(3 * lease)
	if err := ctx.Err(); err != nil {
		e.t.Fatalf("the hold has ended: %v", context.Cause(ctx))
	}
	e.busy(other.rw, key)
	c.wire.Silence()
	w := e.wait(other.rw, key)
	e.ends(ctx)
	e.is("the cause of its end", context.Cause(ctx), lockmw.ErrLost)
	e.unlock(w.gets(lease + pollInterval + e.soon))
	c.wire.Restore()
	e.is("Unlock of a lost hold", held.Unlock(), lockmw.ErrLost)
}

func downgradedEnds(e *env) {
	const lease = 400 * time.Millisecond
	c, other, key := e.client(), e.client(), e.key("item")
	start := time.Now()
	ctx, held := e.lock(c.rw, key, lockmw.WithFixedLease(lease))
	e.downgrade(c, held)
	reader := e.read(other, key) // does not lengthen it
	e.lost(ctx, held)
	if took := time.Since(start); took < lease*9/10 || e.pace.since(start) > lease+e.soon {
		e.t.Errorf("a fixed lease of %v took %v", lease, took)
	}
	e.busy(c.rw, key)
	e.release(reader)
	e.free(c.rw, key)
}

func downgradeNested(e *env) {
	c, other, key := e.client(), e.client(), e.key("item")
	ctx, held := e.lock(c.rw, key)
	inner, write := e.nest(ctx, c.rw, key)
	_, read := e.nest(inner, c.reader(), key)
	reader := e.wait(other.reader(), key)
	if err := c.rw.Downgrade(e.ctx, held.Hold); err != nil { // the nested one still writes
		e.t.Errorf("Downgrade: %v", err)
	}
	e.is("Downgrade of a nested read hold", c.rw.Downgrade(e.ctx, read), lockmw.ErrNotHeld)
	e.busy(other.reader(), key)
	reader.isWaiting()
	_, again := e.nest(ctx, c.rw, key) // the lock is still exclusive
	e.unnest(again)
	if err := held.Share(func() error { return c.rw.Downgrade(e.ctx, write) }); err != nil {
		e.t.Errorf("Downgrade of the nested hold: %v", err)
	}
	e.unlock(reader.gets(e.soon))
	e.noUpgrade(ctx, c, key)
	e.is("Downgrade once more", c.rw.Downgrade(e.ctx, write), lockmw.ErrNotHeld)
	e.unnest(read)
	e.unnest(write)
	e.busy(other.rw, key)
	e.unlock(ctx, held)
	e.free(other.rw, key)
}

// notDowngraded checks that a Downgrade is refused at once.
func (e *env) notDowngraded(what string, c *client, h *lockmw.Hold, want error) {
	e.t.Helper()
	err := c.rw.Downgrade(e.ctx, h)
	e.is("Downgrade of "+what, err, want)
	if _, ok := errors.AsType[*lockmw.Error](err); !ok {
		e.t.Errorf("Downgrade of %s: %v is no *Error", what, err)
	}
}

func downgradeRefused(e *env) {
	c, other := e.client(), e.client()
	key, foreign, read := e.key("item"), e.key("item"), e.key("item")
	ctx, held := e.lock(c.rw, key)
	reader := e.read(c, read)
	others := lockmw.Locker(lockmw.NewLocal())
	if c.redis != nil {
		others = other.rw
	}
	theirs, their := e.lock(others, foreign)
	check := e.stays(c, read)
	e.notDowngraded("nothing", c, nil, lockmw.ErrNotHeld)
	e.notDowngraded("a hold that reads", c, reader.Hold, lockmw.ErrNotHeld)
	e.notDowngraded("another client's hold", c, their.Hold, lockmw.ErrNotHeld)
	_, made := lockmw.NewHold(e.ctx, key, 1, func(context.Context) error { return nil })
	e.notDowngraded("another backend's hold", c, made, lockmw.ErrNotHeld)
	if c.redis != nil {
		plain := e.key("item")
		ctx, hold := e.lock(c.redis, plain)
		e.notDowngraded("a hold of another kind", c, hold.Hold, lockmw.ErrNotHeld)
		e.busy(other.reader(), plain)
		e.unlock(ctx, hold)
	}
	check()
	e.busy(other.reader(), key)
	e.busy(others, foreign)
	e.busy(other.rw, read)
	e.unlock(theirs, their)
	e.release(reader)

	e.downgrade(c, held)
	e.notDowngraded("what was downgraded", c, held.Hold, lockmw.ErrNotHeld)
	e.busy(other.rw, key)
	e.unlock(ctx, held)
	e.notDowngraded("what was unlocked", c, held.Hold, lockmw.ErrNotHeld)
	e.free(other.rw, key)
}

func downgradeLost(e *env) {
	c, other, key := e.client(), e.client(), e.key("item")
	ctx, held := e.lock(c.rw, key, lockmw.WithFixedLease(minLease))
	w := e.wait(other.rw, key)
	e.ends(ctx)
	e.notDowngraded("a lost hold", c, held.Hold, lockmw.ErrLost)
	next, writing := w.gets(e.soon)
	e.notDowngraded("a lost hold", c, held.Hold, lockmw.ErrLost)
	e.busy(c.reader(), key)
	if err := next.Err(); err != nil {
		e.t.Errorf("the next holder's context: %v", err)
	}
	e.lost(ctx, held)
	e.unlock(next, writing)
}

func downgradeGone(e *env) {
	c, other, key := e.client(), e.client(), e.key("item")
	ctx, held := e.lock(c.rw, key)
	e.rec.Forfeit()
	if err := e.admin.Del(e.ctx, e.redisKey(key)).Err(); err != nil {
		e.t.Fatal(err)
	}
	next := e.write(other, key)
	e.notDowngraded("a hold that the server has no more", c, held.Hold, lockmw.ErrLost)
	e.lost(ctx, held)
	e.busy(c.reader(), key)
	e.release(next)
	e.free(c.rw, key)
}

func downgradeUnconfirmed(e *env) {
	c, other, key := e.warmAll(e.client()), e.client(), e.key("item")
	held := e.write(c, key)
	reader := e.wait(other.reader(), key)
	c.wire.Silence()
	ctx, cancel := context.WithTimeout(e.ctx, callLimit)
	defer cancel()
	e.is("Downgrade", held.Share(func() error { return c.rw.Downgrade(ctx, held.Hold) }), lockmw.ErrUnavailable)
	c.wire.Restore()
	if err := c.rw.Downgrade(e.ctx, held.Hold); err != nil {
		e.t.Errorf("Downgrade once more: %v", err)
	}
	e.unlock(reader.gets(e.soon))
	e.release(held)
	e.free(other.rw, key)
}

func downgradeSilent(e *env) {
	c, key := e.warm(e.client()), e.key("item")
	held := e.write(c, key)
	c.wire.Silence()
	ctx, cancel := context.WithTimeout(e.ctx, callLimit)
	defer cancel()
	start := time.Now()
	err := held.Share(func() error { return c.rw.Downgrade(ctx, held.Hold) })
	if took := e.pace.since(start); took > callLimit+e.soon {
		e.t.Errorf("Downgrade with a context of %v took %v", callLimit, took)
	}
	e.is("Downgrade of a silent server", err, lockmw.ErrUnavailable)
	c.wire.Restore()
	e.release(held)
	e.free(e.client().rw, key)
}
