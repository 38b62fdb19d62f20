package rw

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/recording"
	"github.com/lockmw/go/lockmw"
)

var readerLeases = []env.Scenario{
	env.Case("each of several readers has its own limit", func(e *env.Env) { eachEndsByItself(e, e.Client()) }, env.TwoSided|env.InBubble),
	env.Case("each reader of two processes has its own limit", func(e *env.Env) { eachEndsByItself(e, e.Client(), e.Client()) },
		env.TwoSided|env.OnServer|env.Shares),
	env.Case("each reader's minimum hold keeps writers out", minHoldOfReaders, env.TwoSided|env.Shares),
	env.Case("admitted readers outlive the accept window", letInLiveOn, env.TwoSided|env.OnServer|env.InBubble),
	env.Case("a nested call with a different lease is refused", nestedLease, env.TwoSided|env.Shares),
	env.Case("leases do not add up", leasesDoNotAddUp, env.TwoSided|env.OnServer|env.Shares|env.Sample),
	env.Case("a disconnected reader's hold ends and the others stay", cutOffBesideOthers, env.TwoSided|env.OnServer|env.InBubble),
	env.Case("an expired lock ends all readers' holds", expiredLocally, env.TwoSided|env.InProcess),
}

// alive checks that the holds have not ended.
func alive(e *env.Env, holds ...*recording.Held) {
	e.T.Helper()
	for _, h := range holds {
		if err := h.Ctx.Err(); err != nil {
			e.T.Errorf("a hold has ended: %v", context.Cause(h.Ctx))
		}
	}
}

// endsAt checks that a hold is lost at the given time.
func endsAt(e *env.Env, h *recording.Held, at time.Time) {
	e.T.Helper()
	e.Lost(h.Ctx, h)
	if off := time.Since(at); off < -time.Second/10 || e.Pace.Since(at) > e.Soon {
		e.T.Errorf("a hold ended %v after its limit", off)
	}
}

// eachEndsByItself uses readers with all kinds of limits, readers that are renewed, and a writer that waits for all of them.
func eachEndsByItself(e *env.Env, clients ...*env.Client) {
	lease := e.Ample(300 * time.Millisecond)
	a, b, key := clients[0], clients[len(clients)-1], e.Key("item")
	type limited struct {
		*recording.Held
		at time.Time
	}
	takes := func(c *env.Client, after time.Duration, opt lockmw.Option) limited {
		at := time.Now().Add(after)
		return limited{read(e, c, key, lockmw.WithLease(lease), opt), at}
	}
	renewed := []*recording.Held{read(e, a, key, lockmw.WithLease(lease)), read(e, b, key, lockmw.WithLease(lease))}
	fixed := takes(b, lease, lockmw.WithFixedLease(lease))
	limit := takes(a, 2*lease, lockmw.WithMaxHold(2*lease))
	extended := takes(a, 3*lease, lockmw.WithFixedLease(lease))
	if err := extended.Extend(extended.Ctx, 3*lease); err != nil {
		e.T.Errorf("Extend: %v", err)
	}
	last := takes(b, 4*lease, lockmw.WithFixedLease(4*lease))
	e.Pass(lease / 2)
	laterFixed := takes(a, lease, lockmw.WithFixedLease(lease))
	laterLimit := takes(a, 2*lease, lockmw.WithMaxHold(2*lease))
	w := e.Wait(b.RW, key)
	all := []limited{fixed, laterFixed, limit, laterLimit, extended, last}
	for i, next := range all {
		alive(e, renewed...)
		endsAt(e, next.Held, next.at)
		for _, other := range all[i+1:] {
			alive(e, other.Held)
		}
		if next == extended {
			release(e, renewed...)
			renewed = nil
		}
		if next != last {
			w.IsWaiting()
		}
	}
	e.Unlock(w.Gets(e.Soon))
}

func minHoldOfReaders(e *env.Env) {
	least := e.Ample(400 * time.Millisecond)
	a, b, key := e.Client(), e.Client(), e.Key("item")
	release(e, read(e, a, key, lockmw.WithMinHold(least)))
	e.Pass(least / 2)
	start := time.Now()
	release(e, read(e, b, key, lockmw.WithMinHold(least))) // next to the minimum hold
	w := e.Wait(a.RW, key)
	e.Unlock(w.Gets(least + env.PollInterval + e.Soon))
	if took := w.At.Sub(start); took < least {
		e.T.Errorf("the key was free for a writer after %v", took)
	}
}

func letInLiveOn(e *env.Env) {
	clients, key := e.Clients(2), e.Key("item")
	first := write(e, clients[0], key)
	w := e.Wait(clients[1].RW, key)
	release(e, first)
	_, held := w.Gets(e.Soon)
	readers := []*env.Waiter{e.Wait(clients[0].Reader(), key), e.Wait(clients[1].Reader(), key)}
	holds := admitted(e, len(readers), func() { downgrade(e, clients[1], held) }, readers)
	e.Pass(10 * env.AcceptWindow)
	alive(e, held)
	alive(e, holds...)
	e.Busy(clients[0].RW, key)
	release(e, held)
	release(e, holds...)
	e.Free(clients[0].RW, key)
}

func nestedLease(e *env.Env) {
	lease := e.Ample(400 * time.Millisecond)
	c, key := e.Client(), e.Key("item")
	for _, side := range []lockmw.Locker{c.Reader(), c.RW} {
		start := time.Now()
		ctx, held := e.Lock(side, key, lockmw.WithFixedLease(lease), lockmw.WithWait(e.Ample(e.Soon)))
		deadline := held.Deadline()
		for _, nested := range []time.Duration{env.MinLease, time.Hour} {
			_, _, err := c.Reader().Lock(ctx, key, lockmw.WithFixedLease(nested))
			e.Is("a nested call with a different lease", err, lockmw.ErrInvalidOption)
		}
		_, hold := nest(e, ctx, c.Reader(), key, lockmw.WithFixedLease(lease))
		if d := hold.Deadline(); !d.Equal(deadline) {
			e.T.Errorf("the nested hold ends %v after the outer hold", d.Sub(deadline))
		}
		unnest(e, hold)
		endsAt(e, held, start.Add(lease))
	}
}

// shares returns the remaining lease of each reader's hold on the server, by id.
func shares(e *env.Env, key string) map[string]time.Duration {
	e.T.Helper()
	now, err := e.Server.Admin.Time(e.Ctx).Result()
	if err != nil {
		e.T.Fatal(err)
	}
	shares := make(map[string]time.Duration)
	for field, value := range e.Server.Admin.HGetAll(e.Ctx, e.Server.RedisKey(key)).Val() {
		id, ok := strings.CutPrefix(field, "reader:")
		if !ok {
			continue
		}
		expiry, _, _ := strings.Cut(value, " ")
		ms, err := strconv.ParseFloat(expiry, 64)
		if err != nil {
			e.T.Errorf("invalid expiry of a reader's hold: %q", value)
		}
		shares[id] = time.UnixMilli(int64(ms)).Sub(now)
	}
	return shares
}

func leasesDoNotAddUp(e *env.Env) {
	lease := e.Ample(2 * time.Second)
	clients, key := e.Clients(3), e.Key("item")
	start := time.Now()
	var holds []*recording.Held
	for i := range 12 {
		holds = append(holds, read(e, clients[i%3], key, lockmw.WithFixedLease(lease-time.Duration(i%4)*lease/8)))
	}
	took := time.Since(start)
	if left := e.Server.Admin.PTTL(e.Ctx, e.Server.RedisKey(key)).Val(); left > lease || left < lease-took-e.Soon {
		e.T.Errorf("the lock with leases of at most %v lasts %v", lease, left)
	}
	for id, left := range shares(e, key) {
		if left > lease {
			e.T.Errorf("hold %s with a lease of at most %v lasts %v", id, lease, left)
		}
	}
	for _, h := range holds {
		if d := h.Deadline(); d.Sub(start) > lease+took {
			e.T.Errorf("a lease of at most %v ends %v after the first call", lease, d.Sub(start))
		}
	}
	w := e.Wait(clients[0].RW, key)
	release(e, holds[1:]...)
	w.IsWaiting()
	release(e, holds[0])
	e.Unlock(w.Gets(e.Soon))
}

func cutOffBesideOthers(e *env.Env) {
	const lease = 600 * time.Millisecond
	a, b, key := e.Client(), e.Client(), e.Key("item")
	lost := read(e, a, key, lockmw.WithLease(lease))
	holds := []*recording.Held{read(e, b, key, lockmw.WithLease(lease)), read(e, b, key, lockmw.WithLease(3*lease))}
	w := e.Wait(b.RW, key)
	sharesOf(e, key, 3, 0)
	a.Wire.Cut()
	sharesOf(e, key, 2, lease+e.Soon)
	e.Pass(2 * lease)
	alive(e, holds...)
	w.IsWaiting()
	release(e, holds...)
	e.Unlock(w.Gets(e.Soon))
	a.Wire.Restore()
	e.Lost(lost.Ctx, lost)
}

// sharesOf waits until the server has live holds of n readers.
func sharesOf(e *env.Env, key string, n int, within time.Duration) {
	e.T.Helper()
	e.Eventually(within, func() string {
		alive := 0
		for _, left := range shares(e, key) {
			if left > 0 {
				alive++
			}
		}
		if alive == n {
			return ""
		}
		return fmt.Sprintf("%d readers hold the lock, want %d", alive, n)
	})
}

func expiredLocally(e *env.Env) {
	c, key := e.Client(), e.Key("item")
	holds := []*recording.Held{read(e, c, key), read(e, c, key)}
	w := e.Wait(c.RW, key)
	e.Rec.Forfeit()
	e.Local.Expire(key)
	for _, h := range holds {
		e.Lost(h.Ctx, h)
	}
	e.Unlock(w.Gets(e.Soon))
}
