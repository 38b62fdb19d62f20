package rw

import (
	"context"
	"errors"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/recording"
	"github.com/lockmw/go/lockmw"
)

var downgrades = []env.Scenario{
	env.Case("a downgrade admits waiting readers but no writer", downgradeAdmits, env.TwoSided|env.Shares|env.Sample),
	env.Case("a downgrade admits 300 waiting readers", func(e *env.Env) { admitsAll(e, true) }, env.TwoSided|env.Shares),
	env.Case("a downgraded hold keeps its fixed lease", downgradedEnds, env.TwoSided|env.Shares),
	env.Case("an invalid downgrade is refused and changes nothing", downgradeRefused, env.TwoSided|env.Shares),
	env.Case("a downgrade of a lost hold is refused and spares the next holder", downgradeLost, env.TwoSided|env.Shares),
	env.Case("a downgrade of a hold that the server has lost is refused", downgradeGone, env.TwoSided|env.OnServer|env.Shares),
	env.Case("an unconfirmed downgrade ends with its context and can be repeated", downgradeUnconfirmed, env.TwoSided|env.OnServer|env.Shares),
}

// downgrade downgrades a write hold to a read hold.
func downgrade(e *env.Env, c *env.Client, h *recording.Held) {
	e.T.Helper()
	if err := h.Share(func() error { return c.RW.Downgrade(e.Ctx, h.Hold) }); err != nil {
		e.T.Errorf("Downgrade: %v", err)
	}
}

func downgradeAdmits(e *env.Env) {
	clients, key := e.Clients(3), e.Key("item")
	ctx, held := e.Lock(clients[0].RW, key)
	writer := e.Wait(clients[1].RW, key) // queued before the readers
	readers := []*env.Waiter{
		e.Wait(clients[0].Reader(), key), e.Wait(clients[1].Reader(), key), e.Wait(clients[2].Reader(), key),
	}
	last := e.Wait(clients[2].RW, key)
	token := held.Token()
	holds := admitted(e, len(readers), func() { downgrade(e, clients[0], held) }, readers)
	for _, h := range append(holds, held) {
		if h.Token() != token {
			e.T.Errorf("the writer's token was %d; a reader has %d", token, h.Token())
		}
	}
	if err := ctx.Err(); err != nil {
		e.T.Errorf("the downgraded hold has ended: %v", context.Cause(ctx))
	}
	late := behind(e, clients[0], key) // queued behind the writers
	release(e, holds...)
	writer.IsWaiting()
	last.IsWaiting()
	e.Unlock(ctx, held)
	_, next := writer.Gets(e.Soon)
	if next.Nth != 2+len(readers) {
		e.T.Errorf("the next writer received grant %d", next.Nth)
	}
	release(e, next)
	e.Unlock(late.Gets(e.Soon))
	e.Unlock(last.Gets(e.Soon))
}

func downgradedEnds(e *env.Env) {
	lease := e.Ample(600 * time.Millisecond)
	c, other, key := e.Client(), e.Client(), e.Key("item")
	start := time.Now()
	ctx, held := e.Lock(c.RW, key, lockmw.WithFixedLease(lease))
	downgrade(e, c, held)
	reader := read(e, other, key) // does not extend the fixed lease
	e.Lost(ctx, held)
	if took := time.Since(start); took < lease*9/10 || e.Pace.Since(start) > lease+e.Soon {
		e.T.Errorf("a fixed lease of %v lasted %v", lease, took)
	}
	e.Busy(c.RW, key)
	release(e, reader)
	e.Free(c.RW, key)
}

// notDowngraded checks that a Downgrade is refused with want.
func notDowngraded(e *env.Env, what string, c *env.Client, h *lockmw.Hold, want error) {
	e.T.Helper()
	err := c.RW.Downgrade(e.Ctx, h)
	e.Is("Downgrade of "+what, err, want)
	if _, ok := errors.AsType[*lockmw.Error](err); !ok {
		e.T.Errorf("Downgrade of %s: %v is not an *Error", what, err)
	}
}

func downgradeRefused(e *env.Env) {
	c, other := e.Client(), e.Client()
	key, foreign, readKey := e.Key("item"), e.Key("item"), e.Key("item")
	ctx, held := e.Lock(c.RW, key)
	reader := read(e, c, readKey)
	others := lockmw.Locker(lockmw.NewLocal())
	if c.Redis != nil {
		others = other.RW
	}
	theirs, their := e.Lock(others, foreign)
	check := stays(e, c, readKey)
	notDowngraded(e, "a nil hold", c, nil, lockmw.ErrNotHeld)
	notDowngraded(e, "a read hold", c, reader.Hold, lockmw.ErrNotHeld)
	notDowngraded(e, "another client's hold", c, their.Hold, lockmw.ErrNotHeld)
	_, made := lockmw.NewHold(e.Ctx, key, 1, func(context.Context) error { return nil })
	notDowngraded(e, "another backend's hold", c, made, lockmw.ErrNotHeld)
	if c.Redis != nil {
		plain := e.Key("item")
		ctx, hold := e.Lock(c.Redis, plain)
		notDowngraded(e, "a hold of another kind", c, hold.Hold, lockmw.ErrNotHeld)
		e.Busy(other.Reader(), plain)
		e.Unlock(ctx, hold)
	}
	check()
	e.Busy(other.Reader(), key)
	e.Busy(others, foreign)
	e.Busy(other.RW, readKey)
	e.Unlock(theirs, their)
	release(e, reader)

	downgrade(e, c, held)
	notDowngraded(e, "a downgraded hold", c, held.Hold, lockmw.ErrNotHeld)
	e.Busy(other.RW, key)
	e.Unlock(ctx, held)
	notDowngraded(e, "an unlocked hold", c, held.Hold, lockmw.ErrNotHeld)
	e.Free(other.RW, key)
}

func downgradeLost(e *env.Env) {
	c, other, key := e.Client(), e.Client(), e.Key("item")
	ctx, held := e.Lock(c.RW, key, lockmw.WithFixedLease(e.Ample(600*time.Millisecond)))
	w := e.Wait(other.RW, key)
	e.Ends(ctx)
	notDowngraded(e, "a lost hold", c, held.Hold, lockmw.ErrLost)
	next, writing := w.Gets(e.Soon)
	notDowngraded(e, "a lost hold", c, held.Hold, lockmw.ErrLost)
	e.Busy(c.Reader(), key)
	if err := next.Err(); err != nil {
		e.T.Errorf("the next holder's context: %v", err)
	}
	e.Lost(ctx, held)
	e.Unlock(next, writing)
}

func downgradeGone(e *env.Env) {
	c, other, key := e.Client(), e.Client(), e.Key("item")
	ctx, held := e.Lock(c.RW, key)
	e.Rec.Forfeit()
	if err := e.Server.Admin.Del(e.Ctx, e.Server.RedisKey(key)).Err(); err != nil {
		e.T.Fatal(err)
	}
	next := write(e, other, key)
	notDowngraded(e, "a hold that the server has lost", c, held.Hold, lockmw.ErrLost)
	e.Lost(ctx, held)
	e.Busy(c.Reader(), key)
	release(e, next)
	e.Free(c.RW, key)
}

func downgradeUnconfirmed(e *env.Env) {
	c, other, key := warmAll(e, e.Client()), e.Client(), e.Key("item")
	held := write(e, c, key)
	reader := e.Wait(other.Reader(), key)
	c.Wire.Silence()
	limit := e.CallLimit()
	ctx, cancel := context.WithTimeout(e.Ctx, limit)
	defer cancel()
	start := time.Now()
	e.Is("Downgrade", held.Share(func() error { return c.RW.Downgrade(ctx, held.Hold) }), lockmw.ErrUnavailable)
	if took := e.Pace.Since(start); took > limit+e.Soon {
		e.T.Errorf("Downgrade with a context of %v took %v", limit, took)
	}
	c.Wire.Restore()
	if err := c.RW.Downgrade(e.Ctx, held.Hold); err != nil {
		e.T.Errorf("second Downgrade: %v", err)
	}
	e.Unlock(reader.Gets(e.Soon))
	release(e, held)
	e.Free(other.RW, key)
}
