package rw

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/locktest/judge"
	"github.com/lockmw/go/lockmw"
)

var readerLeases = []env.Scenario{
	env.Case("a short lease beside a long one ends alone", func(e *env.Env) { shortBesideLong(e, 1) }, env.TwoSided|env.InBubble),
	env.Case("a short lease beside a long one of another process ends alone", func(e *env.Env) { shortBesideLong(e, 2) }, env.TwoSided|env.OnServer|env.Shares),
	env.Case("a fixed lease beside a renewed one ends alone", func(e *env.Env) { fixedBesideRenewed(e, 1) }, env.TwoSided|env.InBubble),
	env.Case("a fixed lease beside a renewed one of another process ends alone", func(e *env.Env) { fixedBesideRenewed(e, 2) }, env.TwoSided|env.OnServer|env.Shares),
	env.Case("the maximum hold of one reader ends that one", maxHoldOfReader, env.TwoSided|env.Shares),
	env.Case("a reader that comes later has its whole lease", func(e *env.Env) { eachItsOwn(e, lockmw.WithFixedLease) }, env.TwoSided|env.Shares),
	env.Case("a reader that comes later has its whole maximum hold", func(e *env.Env) { eachItsOwn(e, lockmw.WithMaxHold) }, env.TwoSided|env.InBubble),
	env.Case("the minimum hold of each reader keeps writers out", minHoldOfReaders, env.TwoSided|env.Shares),
	env.Case("readers that were let in live on when the accept window is over", letInLiveOn, env.TwoSided|env.OnServer|env.InBubble),
	env.Case("Extend lengthens the hold of one reader", extendsOne, env.TwoSided|env.Shares),
	env.Case("a nested lease that is another one is refused", nestedLease, env.TwoSided|env.Shares),
	env.Case("leases do not add up", leasesDoNotAddUp, env.TwoSided|env.OnServer|env.Shares|env.Sample),
	env.Case("the lock of readers whose leases run out is granted to a writer", expiredReaders, env.TwoSided|env.Shares),
	env.Case("a reader that is cut off delays a writer by its own lease", cutOffReader, env.TwoSided|env.OnServer|env.InBubble),
	env.Case("the share of a reader that is cut off ends and the others stay", cutOffBesideOthers, env.TwoSided|env.OnServer|env.InBubble),
	env.Case("an expired hold loses all readers", expiredLocally, env.TwoSided|env.InProcess),
}

// pair returns the first and the last of n clients: of one process or of two.
func pair(e *env.Env, n int) (a, b *env.Client) {
	clients := e.Clients(n)
	return clients[0], clients[n-1]
}

// alive checks that holds have not ended.
func alive(e *env.Env, holds ...*judge.Held) {
	e.T.Helper()
	for _, h := range holds {
		if err := h.Ctx.Err(); err != nil {
			e.T.Errorf("a hold has ended: %v", context.Cause(h.Ctx))
		}
	}
}

// endsAt checks that a hold is lost then.
func endsAt(e *env.Env, h *judge.Held, at time.Time) {
	e.T.Helper()
	e.Lost(h.Ctx, h)
	if off := time.Since(at); off < -time.Second/10 || e.Pace.Since(at) > e.Soon {
		e.T.Errorf("a hold ended %v after its time", off)
	}
}

func shortBesideLong(e *env.Env, processes int) {
	short, long := e.Ample(300*time.Millisecond), e.Ample(3*time.Second)
	a, b := pair(e, processes)
	start := time.Now()
	keys := []string{e.Key("item"), e.Key("item")}
	brief := []*judge.Held{read(e, a, keys[0], lockmw.WithFixedLease(short))}
	lasting := []*judge.Held{read(e, b, keys[0], lockmw.WithFixedLease(long)), read(e, b, keys[1], lockmw.WithFixedLease(long))}
	brief = append(brief, read(e, a, keys[1], lockmw.WithFixedLease(short)))
	for i := range keys {
		if d := lasting[i].Deadline().Sub(start); d < long*9/10 {
			e.T.Errorf("beside a lease of %v one of %v ends after %v", short, long, d)
		}
		endsAt(e, brief[i], start.Add(short))
	}
	alive(e, lasting...)
	var writers []*env.Waiter
	for _, key := range keys {
		e.Busy(a.RW, key)
		writers = append(writers, e.Wait(a.RW, key))
	}
	e.Pass(short)
	alive(e, lasting...)
	for i, w := range writers {
		w.IsWaiting()
		release(e, lasting[i])
		e.Unlock(w.Gets(e.Soon))
	}
}

func fixedBesideRenewed(e *env.Env, processes int) {
	lease := e.Ample(600 * time.Millisecond)
	a, b := pair(e, processes)
	key, start := e.Key("item"), time.Now()
	renewed := read(e, a, key, lockmw.WithLease(lease))
	fixed := read(e, b, key, lockmw.WithFixedLease(lease))
	again := read(e, a, key, lockmw.WithLease(lease))
	endsAt(e, fixed, start.Add(lease))
	e.Pass(lease + lease/4)
	alive(e, renewed, again)
	w := e.Wait(b.RW, key)
	release(e, renewed)
	e.Pass(lease + lease/4)
	alive(e, again)
	w.IsWaiting()
	release(e, again)
	e.Unlock(w.Gets(e.Soon))
}

func maxHoldOfReader(e *env.Env) {
	lease := e.Ample(600 * time.Millisecond)
	most := lease + lease/2
	c, other, key := e.Client(), e.Client(), e.Key("item")
	start := time.Now()
	holds := []*judge.Held{read(e, c, key, lockmw.WithLease(lease)), read(e, other, key, lockmw.WithLease(lease))}
	limited := read(e, c, key, lockmw.WithLease(lease), lockmw.WithMaxHold(most))
	endsAt(e, limited, start.Add(most))
	e.Pass(lease)
	alive(e, holds...)
	e.Busy(other.RW, key)
	release(e, holds...)
	e.Free(other.RW, key)
}

// eachItsOwn has two readers, one after the other, whose holds are limited in the same way.
func eachItsOwn(e *env.Env, limit func(time.Duration) lockmw.Option) {
	most := e.Ample(600 * time.Millisecond)
	c, key := e.Client(), e.Key("item")
	start := time.Now()
	first := read(e, c, key, limit(most))
	e.Pass(most / 2)
	later := time.Now()
	next := read(e, c, key, limit(most))
	endsAt(e, first, start.Add(most))
	alive(e, next)
	endsAt(e, next, later.Add(most))
	e.Free(e.Client().RW, key)
}

func minHoldOfReaders(e *env.Env) {
	least := e.Ample(400 * time.Millisecond)
	a, b, key := e.Client(), e.Client(), e.Key("item")
	release(e, read(e, a, key, lockmw.WithMinHold(least)))
	e.Pass(least / 2)
	start := time.Now()
	release(e, read(e, b, key, lockmw.WithMinHold(least))) // beside what is kept
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

func extendsOne(e *env.Env) {
	lease := e.Ample(400 * time.Millisecond)
	c, key := e.Client(), e.Key("item")
	start := time.Now()
	first := read(e, c, key, lockmw.WithFixedLease(lease))
	next := read(e, c, key, lockmw.WithFixedLease(lease))
	if err := first.Extend(first.Ctx, 10*lease); err != nil {
		e.T.Errorf("Extend: %v", err)
	}
	if d := first.Deadline().Sub(start); d < 9*lease {
		e.T.Errorf("the extended hold ends after %v", d)
	}
	endsAt(e, next, start.Add(lease))
	e.Pass(lease)
	alive(e, first)
	e.Busy(e.Client().RW, key)
	release(e, first)
	e.Free(e.Client().RW, key)
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
			e.Is("a nested call with another lease", err, lockmw.ErrInvalidOption)
		}
		_, hold := nest(e, ctx, c.Reader(), key, lockmw.WithFixedLease(lease))
		if d := hold.Deadline(); !d.Equal(deadline) {
			e.T.Errorf("the nested hold ends %v after the outer one", d.Sub(deadline))
		}
		unnest(e, hold)
		endsAt(e, held, start.Add(lease))
	}
}

// shares returns how long each reader's own hold of a key lasts on the server, by their ids.
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
			e.T.Errorf("the expiry of a share is %q", value)
		}
		shares[id] = time.UnixMilli(int64(ms)).Sub(now)
	}
	return shares
}

func leasesDoNotAddUp(e *env.Env) {
	lease := e.Ample(2 * time.Second)
	clients, key := e.Clients(3), e.Key("item")
	start := time.Now()
	var holds []*judge.Held
	for i := range 12 {
		holds = append(holds, read(e, clients[i%3], key, lockmw.WithFixedLease(lease-time.Duration(i%4)*lease/8)))
	}
	took := time.Since(start)
	if left := e.Server.Admin.PTTL(e.Ctx, e.Server.RedisKey(key)).Val(); left > lease || left < lease-took-e.Soon {
		e.T.Errorf("the lock of leases of at most %v lasts %v", lease, left)
	}
	for id, left := range shares(e, key) {
		if left > lease {
			e.T.Errorf("share %s of leases of at most %v lasts %v", id, lease, left)
		}
	}
	for _, h := range holds {
		if d := h.Deadline(); d.Sub(start) > lease+took {
			e.T.Errorf("a lease of at most %v ends after %v", lease, d.Sub(start))
		}
	}
	w := e.Wait(clients[0].RW, key)
	release(e, holds[1:]...)
	w.IsWaiting()
	release(e, holds[0])
	e.Unlock(w.Gets(e.Soon))
}

func expiredReaders(e *env.Env) {
	lease := e.Ample(600 * time.Millisecond)
	clients, key := e.Clients(2), e.Key("item")
	start := time.Now()
	holds := []*judge.Held{
		read(e, clients[0], key, lockmw.WithFixedLease(lease)), read(e, clients[1], key, lockmw.WithFixedLease(2*lease)),
	}
	w := e.Wait(clients[0].RW, key)
	endsAt(e, holds[0], start.Add(lease))
	w.IsWaiting()
	endsAt(e, holds[1], start.Add(2*lease))
	_, held := w.Gets(e.Soon)
	release(e, held)
}

func cutOffReader(e *env.Env) {
	const lease = 600 * time.Millisecond
	a, b, key := e.Client(), e.Client(), e.Key("item")
	lost := read(e, a, key, lockmw.WithLease(lease))
	beside := read(e, b, key, lockmw.WithLease(3*lease))
	w := e.Wait(b.RW, key)
	e.Pass(lease) // so that both were renewed
	a.Wire.Cut()
	cut := time.Now()
	release(e, beside)
	w.RunsBy(cut.Add(lease + env.PollInterval))
	a.Wire.Restore()
	e.Lost(lost.Ctx, lost)
	release(e, w.Held)
}

func cutOffBesideOthers(e *env.Env) {
	const lease = 600 * time.Millisecond
	a, b, key := e.Client(), e.Client(), e.Key("item")
	lost := read(e, a, key, lockmw.WithLease(lease))
	holds := []*judge.Held{read(e, b, key, lockmw.WithLease(lease)), read(e, b, key, lockmw.WithLease(3*lease))}
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

// sharesOf waits until n readers have a hold of their own on the server that is not over.
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
		return fmt.Sprintf("%d readers have the lock, not %d", alive, n)
	})
}

func expiredLocally(e *env.Env) {
	c, key := e.Client(), e.Key("item")
	holds := []*judge.Held{read(e, c, key), read(e, c, key)}
	w := e.Wait(c.RW, key)
	e.Rec.Forfeit()
	e.Local.Expire(key)
	for _, h := range holds {
		e.Lost(h.Ctx, h)
	}
	e.Unlock(w.Gets(e.Soon))
}
