package locktest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/lockmw"
)

var readWriteFaults = []scenario{
	{"scripts that are flushed every ten operations are not missed", scriptFlushOfBothSides, twoSided | server | alone | sample},
	{"an emptied server ends readers' holds in time and has its waiters back", flushedReaders, twoSided | server | alone},
	{"a server that is emptied under load of both sides has its waiters back", flushedUnderLoad, twoSided | server | alone},
	{"a server that is killed ends readers' holds in time", killedServerWithReaders, twoSided | realTime | alone},
	{"readers of a server without memory are renewed and released", fullServerWithReaders, twoSided | realTime | alone},
	{"what strangers keep in the readers' places is left alone", strangersAmongReaders, twoSided | server | shares | sample},
}

func scriptFlushOfBothSides(e *env) {
	clients, key := e.clients(3), e.key("item")
	var n atomic.Int32
	var wg sync.WaitGroup
	for i := range 12 {
		c := clients[i%len(clients)]
		l := c.reader()
		if i%4 == 0 {
			l = c.rw
		}
		wg.Go(func() {
			for range 10 {
				_, held, err := e.rec.Lock(e.ctx, l, key)
				if err != nil {
					e.t.Errorf("Lock: %v", err)
					return
				}
				if n.Add(1)%10 == 0 {
					e.flushScripts()
				}
				if !held.reads {
					e.downgrade(c, held)
				}
				e.release(held)
			}
		})
	}
	wg.Wait()
	e.free(clients[0].rw, key)
}

func flushedReaders(e *env) {
	const lease = 1500 * time.Millisecond
	clients, key := e.clients(3), e.key("item")
	holds := []*Held{e.read(clients[0], key, lockmw.WithLease(lease)), e.read(clients[1], key, lockmw.WithLease(lease))}
	waiting := []*waiter{e.wait(clients[0].rw, key), e.behind(clients[1], key), e.behind(clients[2], key)}
	e.pass(time.Millisecond) // new tokens come from the server's clock
	e.flush(false)
	start, token := time.Now(), holds[0].Token()
	for left := waiting; len(left) > 0; {
		w := e.first(time.Until(start.Add(2*pollInterval+e.soon)), left)
		_, next := w.gets(0)
		if next.Token() <= token {
			e.t.Errorf("token %d after %d", next.Token(), token)
		}
		e.release(next)
		left = without(left, w)
	}
	for _, h := range holds {
		e.lost(h.ctx, h)
	}
	if took := e.pace.since(start); took > max(lease/2, 2*pollInterval)+e.soon {
		e.t.Errorf("the readers knew only after %v that the server has forgotten their holds", took)
	}
	e.free(clients[2].rw, key)
}

func flushedUnderLoad(e *env) {
	const contenders, rounds, flushes = 16, 15, 3
	clients, key := e.clients(4), e.key("item")
	var ops atomic.Int32
	var wg sync.WaitGroup
	for i := range contenders {
		l := clients[i%4].reader()
		if i%8 < 2 {
			l = clients[i%4].rw
		}
		wg.Go(func() {
			for range rounds {
				_, held, err := e.rec.Lock(e.ctx, l, key)
				if err != nil {
					e.t.Errorf("Lock: %v", err)
					return
				}
				e.pass(time.Millisecond)
				if ops.Add(1)%(contenders*rounds/flushes) == 0 {
					e.flush(false)
				}
				if err := held.Unlock(); err != nil && !errors.Is(err, lockmw.ErrLost) {
					e.t.Errorf("Unlock: %v", err)
				}
			}
		})
	}
	wg.Wait()
	e.free(clients[0].rw, key)
}

func killedServerWithReaders(e *env) {
	const lease = 900 * time.Millisecond
	clients, key := e.clients(2), e.key("item")
	start := time.Now()
	holds := append(e.readsOf(clients[0], key, 3, lockmw.WithLease(lease)), e.read(clients[1], key, lockmw.WithLease(2*lease)))
	fixed := e.read(clients[1], key, lockmw.WithFixedLease(lease/2))
	w, behind := e.wait(clients[0].rw, key), e.behind(clients[1], key)
	e.rec.Lose(false, func() int64 {
		e.server.Kill()
		return time.Now().UnixMicro()
	})
	killed := time.Now()
	e.endsAt(fixed, start.Add(lease/2))
	for i, h := range holds {
		if !e.ends(h.ctx) {
			return
		}
		e.is("the cause of the context's end", context.Cause(h.ctx), lockmw.ErrLost)
		if late := time.Since(h.Deadline()); late < 0 || i == 0 && e.pace.since(h.Deadline()) > e.soon {
			e.t.Errorf("a hold ended %v after its deadline", late)
		}
	}
	if took := e.pace.since(killed); took > 2*lease+e.soon {
		e.t.Errorf("the holds ended %v after the server, their leases were at most %v", took, 2*lease)
	}
	e.server.Restart(e.tb)
	for _, h := range holds {
		e.is("Unlock of a lost hold", h.Unlock(), lockmw.ErrLost)
	}
	for left := []*waiter{w, behind}; len(left) > 0; { // in any order
		next := e.first(3*pollInterval+e.soon, left)
		_, held := next.gets(0)
		e.release(held)
		left = without(left, next)
	}
}

func fullServerWithReaders(e *env) {
	const lease = 600 * time.Millisecond
	a, b, key := e.client(), e.client(), e.key("item")
	held := e.write(a, key, lockmw.WithLease(lease))
	holds := []*Held{held}
	readers := []*waiter{e.wait(a.reader(), key, lockmw.WithLease(lease)), e.wait(b.reader(), key, lockmw.WithLease(lease))}
	w := e.wait(b.rw, key)
	cancelled := e.wait(a.reader(), key)
	e.readersQueued(key, 3)
	e.fill()
	cancelled.cancel()
	cancelled.fails(e.soon, context.Canceled)
	a.wire.Record()
	b.wire.Record()
	holds = append(holds, e.admitted(len(readers), func() { e.downgrade(a, held) }, readers)...)
	e.pass(4 * pollInterval) // longer than the leases, and than a dead waiter stays
	// A refused renewal or poll may have been made up for.
	for _, c := range []*client{a, b} {
		e.again(c.wire.Sent(), key, func() {})
	}
	e.busy(a.rw, key)
	e.busy(b.reader(), key)
	e.alive(holds...)
	w.isWaiting()
	e.release(holds...)
	e.unlock(w.gets(e.soon))
}

func strangersAmongReaders(e *env) {
	for kind := range plants {
		if kind == "zset" {
			continue // whose members are tickets, whoever put them there
		}
		c, key := e.client(), e.key("item")
		held := e.write(c, key)
		check := e.plant(kind, e.redisKey(key)+":readqueue")
		_, _, err := e.rec.Lock(e.ctx, e.client().reader(), key)
		e.is("RLock with a "+kind+" in the way", err, lockmw.ErrWrongType)
		if err := held.Unlock(); err != nil {
			e.is("Unlock with a "+kind+" in the way", err, lockmw.ErrWrongType)
		}
		if e.admin.Exists(e.ctx, e.redisKey(key)).Val() != 0 {
			e.t.Errorf("a %s in the way keeps the lock from being released", kind)
		}
		check()
	}
	for kind := range plants {
		c, key := e.client(), e.key("item")
		check := e.plant(kind, e.redisKey(key))
		for _, wait := range []time.Duration{0, lockmw.Forever} {
			_, _, err := e.rec.Lock(e.ctx, c.reader(), key, lockmw.WithWait(wait))
			e.is("RLock at a "+kind, err, lockmw.ErrWrongType)
		}
		check()
	}
}
