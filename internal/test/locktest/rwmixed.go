package locktest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/lockmw"
)

var mixedKinds = []scenario{
	{"every kind of lock excludes every other, and readers do not exclude each other", allKindsExclude, twoSided | shares},
	{"all kinds contend for one key", kindsContend, twoSided | shares},
	{"every kind gets its turn behind any other", kindsTakeTurns, twoSided | shares},
	{"a queue of all kinds is worked off", kindsQueue, twoSided | shares | sample},
	{"a reader behind a writer that is cancelled runs at once", func(e *env) { e.writerGivesUp(cancelWriter) }, twoSided | shares | sample},
	{"a reader behind a writer that has waited enough runs at once", writerTimesOut, twoSided | shares},
	{"a reader behind a writer whose client is closed runs at once", func(e *env) { e.writerGivesUp(closeWriter) }, twoSided | server | shares},
	{"a reader behind the last of several writers that give up runs at once", severalGiveUp, twoSided | shares | sample},
	{"a reader behind a writer that is killed runs when that is known", writerDies, twoSided | realTime | shares},
}

// A way is one in which a process can take a lock.
type way struct {
	name string
	lockmw.Locker
	reads bool
}

// Reads tells the Recorder that its holds read.
func (w way) Reads() bool { return w.reads }

// ways are all that c has.
func (c *client) ways() []way {
	all := []way{{"write", c.rw, false}, {readMode, c.rw.RLocker(), true}}
	if c.redis != nil {
		all = append(all, way{clientMode, c.redis, false}, way{"fair", fairlock.New(c.redis), false})
	}
	return all
}

// eachPair calls do with each two ways, of one process and of two.
func (e *env) eachPair(do func(a, b way)) {
	c, other := e.client(), e.client()
	for _, a := range c.ways() {
		for _, b := range append(c.ways(), other.ways()...) {
			do(a, b)
		}
	}
}

func allKindsExclude(e *env) {
	var checks []func()
	e.eachPair(func(a, b way) {
		key := e.key("item")
		ctx, held := e.lock(a, key)
		if a.reads && b.reads {
			e.free(b, key)
			e.unlock(ctx, held)
			return
		}
		e.busy(b, key)
		w := e.call(e.ctx, b, key, lockmw.WithWait(brief))
		checks = append(checks, func() {
			w.fails(brief+e.soon, lockmw.ErrBusy)
			e.unlock(ctx, held)
			e.free(b, key)
		})
	})
	for _, check := range checks {
		check()
	}
}

func kindsTakeTurns(e *env) {
	e.eachPair(func(a, b way) {
		if a.reads && b.reads {
			return
		}
		key := e.key("item")
		ctx, held := e.lock(a, key)
		w := e.wait(b, key)
		e.unlock(ctx, held)
		ctx, held = w.gets(e.soon)
		w = e.wait(a, key)
		e.unlock(ctx, held)
		e.unlock(w.gets(e.soon))
	})
}

func kindsContend(e *env) {
	const each, rounds = 4, 15
	key := e.key("item")
	var inside room
	var wg sync.WaitGroup
	n := 0
	for _, c := range e.clients(3) {
		for _, l := range c.ways() {
			for range each {
				n++
				wg.Go(func() {
					for range rounds {
						ctx, held, err := e.rec.Lock(e.ctx, l, key)
						if err != nil {
							e.t.Errorf("Lock, %s: %v", l.name, err)
							return
						}
						leave := inside.enter(e, held)
						e.pass(100 * time.Microsecond)
						leave()
						e.unlock(ctx, held)
					}
				})
			}
		}
	}
	wg.Wait()
	if grants := e.rec.Grants(key); grants != n*rounds {
		e.t.Errorf("%d grants, want %d", grants, n*rounds)
	}
}

func kindsQueue(e *env) {
	clients, key := e.clients(2), e.key("item")
	held := e.write(clients[0], key)
	var waiting []*waiter
	for range 3 {
		for _, c := range clients {
			for _, l := range c.ways() {
				waiting = append(waiting, e.wait(l, key))
			}
		}
	}
	e.release(held)
	for left := waiting; len(left) > 0; { // the readers are among the first
		w := e.first(e.soon, left)
		e.unlock(w.gets(0))
		left = without(left, w)
	}
	for i, w := range waiting {
		if readers := 3 * len(clients); w.held.reads && w.held.nth > 1+readers {
			e.t.Errorf("call %d, which reads, was grant %d", i, w.held.nth)
		}
	}
}

func cancelWriter(_ *env, _ *client, w *waiter) error {
	w.cancel()
	return context.Canceled
}

func closeWriter(e *env, c *client, _ *waiter) error {
	if err := c.redis.Close(); err != nil {
		e.t.Errorf("Close: %v", err)
	}
	return lockmw.ErrClosed
}

// writerGivesUp has a writer that waits between two readers give up.
func (e *env) writerGivesUp(givesUp func(e *env, c *client, w *waiter) error) {
	for _, kind := range e.client().ways() {
		if kind.reads {
			continue
		}
		clients, key := e.clients(3), e.key("item")
		first := e.read(clients[0], key)
		w := e.wait(clients[1].wayOf(kind.name), key)
		readers := []*waiter{e.behind(clients[0], key), e.behind(clients[2], key)}
		why := givesUp(e, clients[1], w)
		w.fails(e.soon, why)
		holds := e.together(readers)
		e.free(clients[2].reader(), key)
		e.release(holds...)
		e.release(first)
		e.free(clients[0].rw, key)
	}
}

// wayOf returns one of c's ways.
func (c *client) wayOf(name string) way {
	for _, w := range c.ways() {
		if w.name == name {
			return w
		}
	}
	panic(fmt.Sprintf("no way %q", name))
}

func writerTimesOut(e *env) {
	const limit = 300 * time.Millisecond
	clients, key := e.clients(2), e.key("item")
	first := e.read(clients[0], key)
	w := e.wait(clients[1].rw, key, lockmw.WithWait(limit))
	r := e.behind(clients[0], key)
	w.fails(limit+e.soon, lockmw.ErrBusy)
	_, held := r.gets(e.soon)
	e.release(held, first)
}

func severalGiveUp(e *env) {
	clients, key := e.clients(2), e.key("item")
	first := e.read(clients[0], key)
	var writers []*waiter
	for i := range 6 {
		writers = append(writers, e.wait(clients[i%2].rw, key))
	}
	readers := []*waiter{e.behind(clients[0], key), e.behind(clients[1], key)}
	for _, i := range []int{3, 0, 5, 1, 4} {
		writers[i].cancel()
		writers[i].fails(e.soon, context.Canceled)
		readers[0].isWaiting()
	}
	writers[2].cancel()
	writers[2].fails(e.soon, context.Canceled)
	holds := e.together(readers)
	e.release(holds...)
	e.release(first)
	e.free(clients[0].rw, key)
}

// deadAfter is when a ticket that nobody has polled for is taken for dead.
const deadAfter = 3 * pollInterval

func writerDies(e *env) {
	p, clients, key := e.process(), e.clients(2), e.key("item")
	first := e.read(clients[0], key)
	p.lockAs("write", key, 0).waits()
	readers := []*waiter{e.behind(clients[0], key), e.behind(clients[1], key)}
	killed := p.kill()
	e.runsBy(readers[0], killed.Add(deadAfter+2*pollInterval))
	holds := e.together(readers)
	e.release(holds...)
	e.release(first)
	e.free(clients[0].rw, key)
}
