package locktest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// That a client's clock is wrong is the same, seen from there, as that the server's is. Neither is
// compared with the other: a hold's time is measured on the client's monotonic clock, the server's
// lease on the server's. So only a step of the server's clock can be noticed, by the leases that it
// ends early or late.
var steppedClock = []scenario{
	{"60 s behind is not noticed", func(e *env) { e.clockOff(-time.Minute) }, server | bubble},
	{"60 s ahead is not noticed", func(e *env) { e.clockOff(time.Minute) }, server | bubble},
	{"years ahead is not noticed", func(e *env) { e.clockOff(10 * 365 * 24 * time.Hour) }, server | bubble},
	{"of the client is never sent", clockNeverSent, server | bubble},
	{"backwards leaves holds, waiters and tokens alone", steppedBackwards, server | bubble | costly},
	{"backwards under load leaves tokens increasing", steppedBackwardsUnderLoad, server | bubble},
	{"backwards keeps a dead holder's lock for that much longer", steppedBackwardsAtDeath, server | bubble},
	{"forwards leaves longer leases and the queue alone", steppedForwards, server | bubble | costly},
	{"forwards ends shorter leases, which the next renewal tells", steppedOverLease, server | bubble},
	{"forwards over all that is kept brings every waiter back", steppedOverAll, server | bubble},
	{"to and fro under load leaves tokens increasing", steppedUnderLoad, server | bubble},
}

const clockStep = time.Minute

func (e *env) clockOff(by time.Duration) {
	const lease = 900 * time.Millisecond
	clock := e.server.NewClock(e.tb)
	clock.Step(by)
	a, b, key := e.client(), e.client(), e.key("item")
	e.contend([]*client{a, b}, key, 8, 20, func(*Held) { e.pass(100 * time.Microsecond) })

	ctx, held := e.lock(a, key, lockmw.WithLease(lease))
	e.pass(5 * lease)
	if err := ctx.Err(); err != nil {
		e.t.Errorf("the hold has ended: %v", context.Cause(ctx))
	}
	e.unlock(ctx, held)

	start := time.Now()
	ctx, held = e.lock(a, key, lockmw.WithFixedLease(lease))
	if d := held.Deadline().Sub(start); d > lease || d < lease*9/10 {
		e.t.Errorf("a lease of %v lasts %v", lease, d)
	}
	w := e.wait(b, key)
	e.ends(ctx)
	e.unlock(w.gets(lease/10 + e.soon))
	if early := held.Deadline().Sub(w.at); early > 0 {
		e.t.Errorf("granted %v before the deadline of the hold before", early)
	}
	e.lost(ctx, held)
}

func clockNeverSent(e *env) {
	const lease = 900 * time.Millisecond
	clock := e.server.NewClock(e.tb)
	clock.Step(10 * 365 * 24 * time.Hour) // what the server has said may be sent back
	a, b, key := e.client(), e.client(), e.key("item")
	for _, c := range []*client{a, b} {
		c.wire.Record()
	}
	ctx, held := e.lock(a, key, lockmw.WithLease(lease))
	w, cancelled := e.wait(b, key), e.wait(b, key)
	e.pass(2 * lease)
	cancelled.cancel()
	if err := held.Extend(ctx, lease); err != nil {
		e.t.Error(err)
	}
	e.unlock(ctx, held)
	e.unlock(w.gets(e.soon))
	sent := append(a.wire.Sent(), b.wire.Sent()...)
	scripts := 0
	for _, c := range sent {
		if c.IsScript() {
			scripts++
		}
		if word := wordLikeNow(c); word != "" {
			e.t.Errorf("%s was sent with the client's clock, %s", c[0], word)
		}
	}
	if scripts < 8 {
		e.t.Errorf("only %d scripts were run", scripts)
	}
}

// wordLikeNow finds a number in c that is a time of this process' last hour, in whatever unit.
func wordLikeNow(c redistest.Command) string {
	now := float64(time.Now().UnixNano())
	for _, word := range c {
		for field := range strings.FieldsSeq(word) {
			n, err := strconv.ParseFloat(field, 64)
			for unit := 1.0; err == nil && unit <= float64(time.Second); unit *= 1000 {
				if age := now - n*unit; age > -float64(time.Hour) && age < float64(time.Hour) {
					return field
				}
			}
		}
	}
	return ""
}

func steppedBackwards(e *env) {
	clock := e.server.NewClock(e.tb)
	c, key := e.client(), e.key("item")
	ctx, held := e.lock(c, key)
	waiters := e.waitEach(3, key)
	for range 3 {
		clock.Step(-clockStep)
		e.pass(20 * time.Second)
	}
	e.pass(2 * clockStep) // until long after what the queue itself lives
	if err := ctx.Err(); err != nil {
		e.t.Errorf("the hold has ended: %v", context.Cause(ctx))
	}
	e.unlock(ctx, held)
	e.runInOrder(waiters)
}

func steppedBackwardsUnderLoad(e *env) {
	clock := e.server.NewClock(e.tb)
	key := e.key("item")
	var n atomic.Int32 // readers come at the same time
	e.contend(e.clients(3), key, 12, 30, func(*Held) {
		e.pass(time.Millisecond)
		if n.Add(1)%60 == 0 {
			clock.Step(-clockStep)
		}
	})
	if grants := e.rec.Grants(key); grants != 12*30 {
		e.t.Errorf("%d grants, want %d", grants, 12*30)
	}
}

func steppedBackwardsAtDeath(e *env) {
	const lease = 900 * time.Millisecond
	clock := e.server.NewClock(e.tb)
	dead, gone, c, key := e.client(), e.client(), e.client(), e.key("item")
	e.lock(dead, key, lockmw.WithLease(lease))
	first, next := e.wait(gone, key), e.wait(c, key)
	start := time.Now()
	var closed sync.WaitGroup
	for _, c := range []*client{dead, gone} {
		c.wire.Cut()
		closed.Go(func() { // which tries to release what it has, for longer than its lease
			if err := c.redis.Close(); err != nil {
				e.t.Errorf("Close: %v", err)
			}
		})
	}
	defer closed.Wait()
	first.fails(e.soon, lockmw.ErrClosed)
	clock.Step(-clockStep)
	// The one that is gone is taken for alive, as it was seen in the future.
	e.unlock(next.gets(clockStep + lease + acceptWindow + pollInterval + e.soon))
	if took := next.at.Sub(start); took < clockStep {
		e.t.Errorf("the dead holder's lock was granted after %v", took)
	}
}

// A queue lives for a minute after the last sign of life of those who wait in it.
const underQueueTTL = 55 * time.Second

func steppedForwards(e *env) {
	clock := e.server.NewClock(e.tb)
	c, key := e.client(), e.key("item")
	ctx, held := e.lock(c, key, lockmw.WithLease(5*time.Minute))
	waiters := e.waitEach(3, key)
	for range 3 {
		clock.Step(underQueueTTL)
		e.pass(2 * time.Minute)
	}
	if err := ctx.Err(); err != nil {
		e.t.Errorf("the hold has ended: %v", context.Cause(ctx))
	}
	clock.Step(underQueueTTL) // those who wait have not been seen for so long now
	e.unlock(ctx, held)
	e.runInOrder(waiters)
}

func steppedOverLease(e *env) {
	const lease = 30 * time.Second
	clock := e.server.NewClock(e.tb)
	c, key := e.client(), e.key("item")
	ctx, held := e.lock(c, key, lockmw.WithLease(lease))
	waiters := e.waitEach(3, key)
	e.rec.Forfeit() // the server ends the lease, of which the holder cannot know
	clock.Step(underQueueTTL)
	start := time.Now()
	next, nextHeld := waiters[0].gets(pollInterval + e.soon)
	if nextHeld.Token() <= held.Token() {
		e.t.Errorf("token %d after %d", nextHeld.Token(), held.Token())
	}
	e.lost(ctx, held)
	if took := e.pace.since(start); took > lease/3+e.soon {
		e.t.Errorf("the holder was told after %v", took)
	}
	e.unlock(next, nextHeld)
	e.runInOrder(waiters[1:])
}

func steppedOverAll(e *env) {
	clock := e.server.NewClock(e.tb)
	c, key := e.client(), e.key("item")
	ctx, held := e.lock(c, key)
	waiters := e.waitEach(3, key)
	e.rec.Forfeit()
	clock.Step(time.Hour)
	for token, left := held.Token(), waiters; len(left) > 0; {
		w := e.first(pollInterval+e.soon, left)
		_, next := w.gets(0)
		if next.Token() <= token {
			e.t.Errorf("token %d after %d", next.Token(), token)
		}
		token = next.Token()
		e.unlock(w.ctx, next)
		left = without(left, w)
	}
	e.lost(ctx, held)
}

func steppedUnderLoad(e *env) {
	clock := e.server.NewClock(e.tb)
	key := e.key("item")
	clients := make([]*client, 4)
	for i := range clients {
		clients[i] = e.client(lockmw.WithLocalPasses(0))
	}
	var ops atomic.Int32
	var wg sync.WaitGroup
	for i := range 12 {
		l := clients[i%len(clients)].nth(i / len(clients))
		wg.Go(func() {
			for range 30 {
				_, held, err := e.rec.Lock(e.ctx, l, key)
				if err != nil {
					e.t.Errorf("Lock: %v", err)
					return
				}
				e.pass(time.Millisecond)
				switch ops.Add(1) % 60 {
				case 30:
					clock.Step(-clockStep)
				case 0: // ends the leases
					e.rec.Lose(false, func() int64 { return clock.Step(clockStep).UnixMicro() })
				}
				if err := held.Unlock(); err != nil && !errors.Is(err, lockmw.ErrLost) {
					e.t.Errorf("Unlock: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if n := ops.Load(); n != 12*30 {
		e.t.Errorf("%d grants, want %d", n, 12*30)
	}
	e.free(clients[0], key)
}
