package locktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockmw/go/lockmw"
)

var upgrades = []scenario{
	{"an upgrade fails at once and changes nothing", upgradeFails, twoSided | shares},
	{"an upgrade through the lock of another key fails", upgradeThroughAnotherKey, twoSided | shares | sample},
	{"two upgraders both fail", twoUpgraders, twoSided | shares | sample},
	{"an upgrade is none when the read hold was unlocked", noUpgradeAfterUnlock, twoSided | shares | sample},
	{"read in read does not wait for a writer that waits", readInRead, twoSided | shares},
	{"read in write and write in write wait for nobody", nestedInWrite, twoSided | shares},
	{"holds nested in any way exclude as much as the strongest of them", nestedInAnyOrder, twoSided | shares},
	{"a write hold that is unlocked before its nested read lets in readers only", writeUnlockedFirst, twoSided | shares},
	{"what is left of a write hold cannot be upgraded", leftoverIsNoWrite, twoSided | shares},
}

// nest takes the lock once more in the context of a hold, for which it must not wait.
func (e *env) nest(ctx context.Context, l lockmw.Locker, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold) {
	e.t.Helper()
	start := time.Now()
	inner, hold, err := l.Lock(ctx, key, opts...)
	if err != nil {
		e.t.Fatalf("nested: %v", err)
	}
	if took := e.pace.since(start); took > e.soon {
		e.t.Errorf("re-entry took %v", took)
	}
	return inner, hold
}

func (e *env) unnest(h *lockmw.Hold) {
	e.t.Helper()
	if err := h.Unlock(); err != nil {
		e.t.Errorf("Unlock of a nested hold: %v", err)
	}
}

// noUpgrade checks that writing in ctx, which reads, is refused at once.
func (e *env) noUpgrade(ctx context.Context, c *client, key string) {
	e.t.Helper()
	for _, opts := range [][]lockmw.Option{nil, {lockmw.WithWait(0)}, {lockmw.WithWait(time.Hour)}} {
		start := time.Now()
		got, hold, err := c.rw.Lock(ctx, key, opts...)
		e.is("an upgrade", err, lockmw.ErrUpgrade)
		if errors.Is(err, lockmw.ErrBusy) || hold != nil || got != ctx {
			e.t.Errorf("an upgrade returned %v, or a hold, or another context", err)
		}
		if failure, ok := errors.AsType[*lockmw.Error](err); !ok || failure.Key != key || failure.ErrorType() != "lock_upgrade" {
			e.t.Errorf("an upgrade's error is %#v", err)
		}
		if took := e.pace.since(start); took > e.soon {
			e.t.Errorf("an upgrade was refused after %v", took)
		}
	}
}

// stays returns a check that the server keeps of key what it keeps now, and got no command about it.
func (e *env) stays(c *client, key string) (check func()) {
	e.t.Helper()
	if e.server == nil {
		return func() {}
	}
	before := e.show(e.redisKey(key))
	c.wire.Record()
	return func() {
		e.t.Helper()
		e.unchanged(key, before)
		for _, sent := range c.wire.Sent() {
			if sent.IsScript() && sent.Concerns(key) {
				e.t.Errorf("sent %q", sent)
			}
		}
	}
}

func upgradeFails(e *env) {
	c, other, key := e.client(), e.client(), e.key("item")
	ctx, held := e.lock(c.reader(), key)
	reader := e.read(other, key)
	check := e.stays(c, key)
	e.noUpgrade(ctx, c, key)
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.noUpgrade(ctx, c, key) // in a goroutine started inside
	}()
	<-done
	inner, nested := e.nest(ctx, c.reader(), key)
	e.noUpgrade(inner, c, key)
	check()
	e.unnest(nested)
	if err := ctx.Err(); err != nil {
		e.t.Errorf("the read hold has ended: %v", err)
	}
	w := e.wait(other.rw, key)
	e.noUpgrade(ctx, c, key) // also while somebody else waits to write
	e.release(reader)
	w.isWaiting()
	e.unlock(ctx, held)
	e.unlock(w.gets(e.soon))
}

func upgradeThroughAnotherKey(e *env) {
	c, key, between := e.client(), e.key("item"), e.key("user")
	ctx, held := e.lock(c.reader(), key)
	inner, writing := e.lockWith(ctx, c.rw, between)
	e.noUpgrade(inner, c, key)
	innermost, nested := e.nest(inner, c.reader(), key)
	e.noUpgrade(innermost, c, key)
	_, again := e.nest(innermost, c.rw, between) // that is no upgrade of it
	e.unnest(again)
	e.unnest(nested)
	e.unlock(inner, writing)
	e.unlock(ctx, held)
	e.free(c.rw, key)
}

func twoUpgraders(e *env) {
	clients, key := e.clients(2), e.key("item")
	var wg sync.WaitGroup
	for _, c := range clients {
		ctx, held := e.lock(c.reader(), key)
		defer e.unlock(ctx, held)
		wg.Go(func() { e.noUpgrade(ctx, c, key) })
	}
	wg.Wait()
}

func noUpgradeAfterUnlock(e *env) {
	c, key := e.client(), e.key("item")
	ctx, held := e.lock(c.reader(), key)
	e.unlock(ctx, held)
	e.unlock(e.lockWith(context.WithoutCancel(ctx), c.rw, key, lockmw.WithWait(e.soon)))
}

func readInRead(e *env) {
	c, other, key := e.client(), e.client(), e.key("item")
	ctx, held := e.lock(c.reader(), key)
	w := e.wait(other.rw, key)
	late := e.behind(c, key) // of another owner: behind the writer
	for _, opt := range []lockmw.Option{lockmw.WithWait(0), lockmw.WithWait(time.Hour)} {
		_, nested := e.nest(ctx, c.reader(), key, opt)
		if nested.Token() != held.Token() {
			e.t.Errorf("the nested hold has token %d, the outer one %d", nested.Token(), held.Token())
		}
		e.unnest(nested)
	}
	w.isWaiting()
	late.isWaiting()
	e.unlock(ctx, held)
	e.unlock(w.gets(e.soon))
	e.unlock(late.gets(e.soon))
}

func nestedInWrite(e *env) {
	c, other, key := e.client(), e.client(), e.key("item")
	ctx, held := e.lock(c.rw, key)
	waiting := []*waiter{e.wait(other.reader(), key), e.wait(other.rw, key)}
	check := e.stays(c, key)
	reading, read := e.nest(ctx, c.reader(), key)
	writing, write := e.nest(reading, c.rw, key) // the lock is still exclusive
	_, innermost := e.nest(writing, c.reader(), key)
	for _, h := range []*lockmw.Hold{read, write, innermost} {
		if h.Token() != held.Token() {
			e.t.Errorf("a nested hold has token %d, the outer one %d", h.Token(), held.Token())
		}
	}
	e.unnest(write)
	e.unnest(read)
	e.unnest(innermost)
	check()
	for _, w := range waiting {
		w.isWaiting()
	}
	e.unlock(ctx, held)
	e.release(e.together(waiting[:1])...)
	e.unlock(waiting[1].gets(e.soon))
}

func nestedInAnyOrder(e *env) {
	c, other := e.client(), e.client()
	for range 8 {
		key := e.key("item")
		ctx, outer := e.lock(c.rw, key)
		reads, holds := []bool{false}, []*lockmw.Hold{outer.Hold}
		for range 6 {
			l, read := lockmw.Locker(c.rw), rand.IntN(2) == 0
			if read {
				l = c.reader()
			}
			inner, h := e.nest(ctx, l, key)
			reads, holds, ctx = append(reads, read), append(holds, h), inner
		}
		writes := 0
		for _, read := range reads {
			if !read {
				writes++
			}
		}
		for left, i := range rand.Perm(len(holds)) {
			e.busy(other.rw, key)
			if writes > 0 {
				e.busy(other.reader(), key)
			} else {
				e.free(other.reader(), key)
			}
			e.unlockNth(outer, holds[i], &writes, reads[i], left == len(holds)-1)
			e.is("Unlock once more", holds[i].Unlock(), lockmw.ErrNotHeld)
		}
		e.free(other.rw, key)
	}
}

// unlockNth unlocks one of the holds that are nested in outer; writes is how many of them write.
func (e *env) unlockNth(outer *Held, h *lockmw.Hold, writes *int, reads, last bool) {
	e.t.Helper()
	unlock := h.Unlock
	if !reads {
		*writes--
	}
	var err error
	switch {
	case last:
		err = outer.End(unlock)
	case !reads && *writes == 0:
		err = outer.Share(unlock)
	default:
		err = unlock()
	}
	if err != nil {
		e.t.Errorf("Unlock: %v", err)
	}
}

func writeUnlockedFirst(e *env) {
	c, other, key := e.client(), e.client(), e.key("item")
	ctx, held := e.lock(c.rw, key)
	inner, nested := e.nest(ctx, c.reader(), key)
	writer := e.wait(other.rw, key)
	readers := []*waiter{e.wait(other.reader(), key), e.wait(c.reader(), key)}
	holds := e.admitted(len(readers), func() {
		if err := held.Share(held.Hold.Unlock); err != nil {
			e.t.Errorf("Unlock: %v", err)
		}
	}, readers)
	if inner.Err() == nil {
		e.t.Error("the nested hold goes on without the context that it was taken with")
	}
	e.is("Unlock once more", held.Hold.Unlock(), lockmw.ErrNotHeld)
	writer.isWaiting()
	e.release(holds...)
	writer.isWaiting()
	if err := held.End(nested.Unlock); err != nil {
		e.t.Errorf("Unlock of the nested hold: %v", err)
	}
	e.is("Unlock of the nested hold once more", nested.Unlock(), lockmw.ErrNotHeld)
	e.unlock(writer.gets(e.soon))
	e.free(other.rw, key)
}

func leftoverIsNoWrite(e *env) {
	c, key := e.client(), e.key("item")
	ctx, held := e.lock(c.rw, key)
	inner, nested := e.nest(ctx, c.reader(), key)
	if err := held.Share(held.Hold.Unlock); err != nil {
		e.t.Errorf("Unlock: %v", err)
	}
	inner = context.WithoutCancel(inner)
	e.noUpgrade(inner, c, key)
	_, again := e.nest(inner, c.reader(), key)
	e.unnest(again)
	if err := held.End(nested.Unlock); err != nil {
		e.t.Errorf("Unlock of the nested hold: %v", err)
	}
}
