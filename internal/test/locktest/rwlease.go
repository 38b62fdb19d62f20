package locktest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/go/lockmw"
)

var readerLeases = []scenario{
	{"a short lease beside a long one ends alone", func(e *env) { e.shortBesideLong(1) }, twoSided | bubble},
	{"a short lease beside a long one of another process ends alone", func(e *env) { e.shortBesideLong(2) }, twoSided | server | shares},
	{"a fixed lease beside a renewed one ends alone", func(e *env) { e.fixedBesideRenewed(1) }, twoSided | bubble},
	{"a fixed lease beside a renewed one of another process ends alone", func(e *env) { e.fixedBesideRenewed(2) }, twoSided | server | shares},
	{"the maximum hold of one reader ends that one", maxHoldOfReader, twoSided | shares},
	{"a reader that comes later has its whole lease", func(e *env) { e.eachItsOwn(lockmw.WithFixedLease) }, twoSided | shares},
	{"a reader that comes later has its whole maximum hold", func(e *env) { e.eachItsOwn(lockmw.WithMaxHold) }, twoSided | bubble},
	{"the minimum hold of each reader keeps writers out", minHoldOfReaders, twoSided | shares},
	{"readers that were let in live on when the accept window is over", letInLiveOn, twoSided | server | bubble},
	{"Extend lengthens the hold of one reader", extendsOne, twoSided | shares},
	{"a nested lease changes nothing", nestedLease, twoSided | shares},
	{"leases do not add up", leasesDoNotAddUp, twoSided | server | shares | sample},
	{"the lock of readers whose leases run out is granted to a writer", expiredReaders, twoSided | shares},
	{"a reader that is cut off delays a writer by its own lease", cutOffReader, twoSided | server | bubble},
	{"the share of a reader that is cut off ends and the others stay", cutOffBesideOthers, twoSided | server | bubble},
	{"an expired hold loses all readers", expiredLocally, twoSided | inProc},
}

// pair returns the first and the last of n clients: of one process or of two.
func (e *env) pair(n int) (a, b *client) {
	clients := e.clients(n)
	return clients[0], clients[n-1]
}

// alive checks that holds have not ended.
func (e *env) alive(holds ...*Held) {
	e.t.Helper()
	for _, h := range holds {
		if err := h.ctx.Err(); err != nil {
			e.t.Errorf("a hold has ended: %v", context.Cause(h.ctx))
		}
	}
}

// endsAt checks that a hold is lost then.
func (e *env) endsAt(h *Held, at time.Time) {
	e.t.Helper()
	e.lost(h.ctx, h)
	if off := time.Since(at); off < -time.Second/10 || e.pace.since(at) > e.soon {
		e.t.Errorf("a hold ended %v after its time", off)
	}
}

func (e *env) shortBesideLong(processes int) {
	const short, long = 300 * time.Millisecond, 3 * time.Second
	a, b := e.pair(processes)
	start := time.Now()
	keys := []string{e.key("item"), e.key("item")}
	brief := []*Held{e.read(a, keys[0], lockmw.WithFixedLease(short))}
	lasting := []*Held{e.read(b, keys[0], lockmw.WithFixedLease(long)), e.read(b, keys[1], lockmw.WithFixedLease(long))}
	brief = append(brief, e.read(a, keys[1], lockmw.WithFixedLease(short)))
	for i := range keys {
		if d := lasting[i].Deadline().Sub(start); d < long*9/10 {
			e.t.Errorf("beside a lease of %v one of %v ends after %v", short, long, d)
		}
		e.endsAt(brief[i], start.Add(short))
	}
	e.alive(lasting...)
	var writers []*waiter
	for _, key := range keys {
		e.busy(a.rw, key)
		writers = append(writers, e.wait(a.rw, key))
	}
	e.pass(short)
	e.alive(lasting...)
	for i, w := range writers {
		w.isWaiting()
		e.release(lasting[i])
		e.unlock(w.gets(e.soon))
	}
}

func (e *env) fixedBesideRenewed(processes int) {
	const lease = 300 * time.Millisecond
	a, b := e.pair(processes)
	key, start := e.key("item"), time.Now()
	renewed := e.read(a, key, lockmw.WithLease(lease))
	fixed := e.read(b, key, lockmw.WithFixedLease(lease))
	again := e.read(a, key, lockmw.WithLease(lease))
	e.endsAt(fixed, start.Add(lease))
	e.pass(2 * lease)
	e.alive(renewed, again)
	w := e.wait(b.rw, key)
	e.release(renewed)
	e.pass(2 * lease)
	e.alive(again)
	w.isWaiting()
	e.release(again)
	e.unlock(w.gets(e.soon))
}

func maxHoldOfReader(e *env) {
	const most, lease = 500 * time.Millisecond, 300 * time.Millisecond
	c, other, key := e.client(), e.client(), e.key("item")
	start := time.Now()
	holds := []*Held{e.read(c, key, lockmw.WithLease(lease)), e.read(other, key, lockmw.WithLease(lease))}
	limited := e.read(c, key, lockmw.WithLease(lease), lockmw.WithMaxHold(most))
	e.endsAt(limited, start.Add(most))
	e.pass(2 * lease)
	e.alive(holds...)
	e.busy(other.rw, key)
	e.release(holds...)
	e.free(other.rw, key)
}

// eachItsOwn has two readers, one after the other, whose holds are limited in the same way.
func (e *env) eachItsOwn(limit func(time.Duration) lockmw.Option) {
	const most = 600 * time.Millisecond
	c, key := e.client(), e.key("item")
	start := time.Now()
	first := e.read(c, key, limit(most))
	e.pass(most / 2)
	later := time.Now()
	next := e.read(c, key, limit(most))
	e.endsAt(first, start.Add(most))
	e.alive(next)
	e.endsAt(next, later.Add(most))
	e.free(e.client().rw, key)
}

func minHoldOfReaders(e *env) {
	const least = 400 * time.Millisecond
	a, b, key := e.client(), e.client(), e.key("item")
	e.release(e.read(a, key, lockmw.WithMinHold(least)))
	e.pass(least / 2)
	start := time.Now()
	e.release(e.read(b, key, lockmw.WithMinHold(least))) // beside what is kept
	w := e.wait(a.rw, key)
	e.unlock(w.gets(least + pollInterval + e.soon))
	if took := w.at.Sub(start); took < least {
		e.t.Errorf("the key was free for a writer after %v", took)
	}
}

func letInLiveOn(e *env) {
	clients, key := e.clients(2), e.key("item")
	first := e.write(clients[0], key)
	w := e.wait(clients[1].rw, key)
	e.release(first)
	_, held := w.gets(e.soon)
	readers := []*waiter{e.wait(clients[0].reader(), key), e.wait(clients[1].reader(), key)}
	holds := e.admitted(len(readers), func() { e.downgrade(clients[1], held) }, readers)
	e.pass(10 * acceptWindow)
	e.alive(held)
	e.alive(holds...)
	e.busy(clients[0].rw, key)
	e.release(held)
	e.release(holds...)
	e.free(clients[0].rw, key)
}

func extendsOne(e *env) {
	const lease = 400 * time.Millisecond
	c, key := e.client(), e.key("item")
	start := time.Now()
	first := e.read(c, key, lockmw.WithFixedLease(lease))
	next := e.read(c, key, lockmw.WithFixedLease(lease))
	if err := first.Extend(first.ctx, 10*lease); err != nil {
		e.t.Errorf("Extend: %v", err)
	}
	if d := first.Deadline().Sub(start); d < 9*lease {
		e.t.Errorf("the extended hold ends after %v", d)
	}
	e.endsAt(next, start.Add(lease))
	e.pass(lease)
	e.alive(first)
	e.busy(e.client().rw, key)
	e.release(first)
	e.free(e.client().rw, key)
}

func nestedLease(e *env) {
	const lease = 400 * time.Millisecond
	c, key := e.client(), e.key("item")
	for _, side := range []lockmw.Locker{c.reader(), c.rw} {
		start := time.Now()
		ctx, held := e.lock(side, key, lockmw.WithFixedLease(lease), lockmw.WithWait(e.soon))
		deadline := held.Deadline()
		for _, nested := range []time.Duration{minLease, time.Hour} {
			_, hold := e.nest(ctx, c.reader(), key, lockmw.WithFixedLease(nested))
			if d := hold.Deadline(); !d.Equal(deadline) {
				e.t.Errorf("a nested lease of %v ends %v after the outer one", nested, d.Sub(deadline))
			}
			e.unnest(hold)
		}
		e.endsAt(held, start.Add(lease))
	}
}

// shares returns how long each reader's own hold of a key lasts on the server, by their ids.
func (e *env) shares(key string) map[string]time.Duration {
	e.t.Helper()
	now, err := e.admin.Time(e.ctx).Result()
	if err != nil {
		e.t.Fatal(err)
	}
	shares := make(map[string]time.Duration)
	for field, value := range e.admin.HGetAll(e.ctx, e.redisKey(key)).Val() {
		id, ok := strings.CutPrefix(field, "reader:")
		if !ok {
			continue
		}
		expiry, _, _ := strings.Cut(value, " ")
		ms, err := strconv.ParseFloat(expiry, 64)
		if err != nil {
			e.t.Errorf("the expiry of a share is %q", value)
		}
		shares[id] = time.UnixMilli(int64(ms)).Sub(now)
	}
	return shares
}

func leasesDoNotAddUp(e *env) {
	const lease = 2 * time.Second
	clients, key := e.clients(3), e.key("item")
	start := time.Now()
	var holds []*Held
	for i := range 12 {
		holds = append(holds, e.read(clients[i%3], key, lockmw.WithFixedLease(lease-time.Duration(i%4)*lease/8)))
	}
	took := time.Since(start)
	if left := e.admin.PTTL(e.ctx, e.redisKey(key)).Val(); left > lease || left < lease-took-e.soon {
		e.t.Errorf("the lock of leases of at most %v lasts %v", lease, left)
	}
	for id, left := range e.shares(key) {
		if left > lease {
			e.t.Errorf("share %s of leases of at most %v lasts %v", id, lease, left)
		}
	}
	for _, h := range holds {
		if d := h.Deadline(); d.Sub(start) > lease+took {
			e.t.Errorf("a lease of at most %v ends after %v", lease, d.Sub(start))
		}
	}
	w := e.wait(clients[0].rw, key)
	e.release(holds[1:]...)
	w.isWaiting()
	e.release(holds[0])
	e.unlock(w.gets(e.soon))
}

func expiredReaders(e *env) {
	const lease = 300 * time.Millisecond
	clients, key := e.clients(2), e.key("item")
	start := time.Now()
	holds := []*Held{
		e.read(clients[0], key, lockmw.WithFixedLease(lease)), e.read(clients[1], key, lockmw.WithFixedLease(2*lease)),
	}
	w := e.wait(clients[0].rw, key)
	e.endsAt(holds[0], start.Add(lease))
	w.isWaiting()
	e.endsAt(holds[1], start.Add(2*lease))
	_, held := w.gets(e.soon)
	e.release(held)
}

func cutOffReader(e *env) {
	const lease = 600 * time.Millisecond
	a, b, key := e.client(), e.client(), e.key("item")
	lost := e.read(a, key, lockmw.WithLease(lease))
	beside := e.read(b, key, lockmw.WithLease(3*lease))
	w := e.wait(b.rw, key)
	e.pass(lease) // so that both were renewed
	a.wire.Cut()
	cut := time.Now()
	e.release(beside)
	e.runsBy(w, cut.Add(lease+pollInterval))
	a.wire.Restore()
	e.lost(lost.ctx, lost)
	e.release(w.held)
}

func cutOffBesideOthers(e *env) {
	const lease = 600 * time.Millisecond
	a, b, key := e.client(), e.client(), e.key("item")
	lost := e.read(a, key, lockmw.WithLease(lease))
	holds := []*Held{e.read(b, key, lockmw.WithLease(lease)), e.read(b, key, lockmw.WithLease(3*lease))}
	w := e.wait(b.rw, key)
	e.sharesOf(key, 3, 0)
	a.wire.Cut()
	e.sharesOf(key, 2, lease+e.soon)
	e.pass(2 * lease)
	e.alive(holds...)
	w.isWaiting()
	e.release(holds...)
	e.unlock(w.gets(e.soon))
	a.wire.Restore()
	e.lost(lost.ctx, lost)
}

// sharesOf waits until n readers have a hold of their own on the server that is not over.
func (e *env) sharesOf(key string, n int, within time.Duration) {
	e.t.Helper()
	e.eventually(within, func() string {
		alive := 0
		for _, left := range e.shares(key) {
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

func expiredLocally(e *env) {
	c, key := e.client(), e.key("item")
	holds := []*Held{e.read(c, key), e.read(c, key)}
	w := e.wait(c.rw, key)
	e.rec.Forfeit()
	e.local.Expire(key)
	for _, h := range holds {
		e.lost(h.ctx, h)
	}
	e.unlock(w.gets(e.soon))
}
