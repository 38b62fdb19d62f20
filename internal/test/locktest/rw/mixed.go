package rw

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

var mixedKinds = []env.Scenario{
	env.Case("all kinds of locks exclude each other, except readers", allKindsExclude, env.TwoSided|env.Shares),
	env.Case("all kinds contend for one key", kindsContend, env.TwoSided|env.Shares),
	env.Case("a queue of all kinds is served completely", kindsQueue, env.TwoSided|env.Shares|env.Sample),
	env.Case("a reader behind a cancelled writer runs immediately", func(e *env.Env) { writerGivesUp(e, cancelWriter) }, env.TwoSided|env.Shares|env.Sample),
	env.Case("a reader behind a writer of a closed client runs immediately", func(e *env.Env) { writerGivesUp(e, closeWriter) }, env.TwoSided|env.OnServer|env.Shares),
	env.Case("a reader behind a killed writer runs once the writer is considered dead", writerDies, env.TwoSided|env.InRealTime|env.Shares),
}

// A way is a kind of lock that a process can take.
type way struct {
	name string
	lockmw.Locker
	reads bool
}

// Reads tells the Recorder whether the holds are read locks.
func (w way) Reads() bool { return w.reads }

// ways returns all kinds that c can take.
func ways(c *env.Client) []way {
	all := []way{{"write", c.RW, false}, {env.ReadMode, c.RW.RLocker(), true}}
	if c.Redis != nil {
		all = append(all, way{env.ClientMode, c.Redis, false}, way{"fair", fairlock.New(c.Redis), false})
	}
	return all
}

// eachPair calls do with each pair of kinds, within one process and across two.
func eachPair(e *env.Env, do func(a, b way)) {
	c, other := e.Client(), e.Client()
	for _, a := range ways(c) {
		for _, b := range append(ways(c), ways(other)...) {
			do(a, b)
		}
	}
}

func allKindsExclude(e *env.Env) {
	var checks []func()
	eachPair(e, func(a, b way) {
		key := e.Key("item")
		ctx, held := e.Lock(a, key)
		if a.reads && b.reads {
			e.Free(b, key)
			e.Unlock(ctx, held)
			return
		}
		e.Busy(b, key)
		w := e.Call(e.Ctx, b, key, lockmw.WithWait(e.Brief()))
		checks = append(checks, func() {
			w.Fails(e.Brief()+e.Soon, lockmw.ErrBusy)
			e.Unlock(ctx, held)
			e.Free(b, key)
		})
	})
	for _, check := range checks {
		check()
	}
}

func kindsContend(e *env.Env) {
	const each, rounds = 4, 15
	key := e.Key("item")
	var inside env.Room
	var wg sync.WaitGroup
	n := 0
	for _, c := range e.Clients(3) {
		for _, l := range ways(c) {
			for range each {
				n++
				wg.Go(func() {
					for range rounds {
						ctx, held, err := e.Rec.Lock(e.Ctx, l, key)
						if err != nil {
							e.T.Errorf("Lock, %s: %v", l.name, err)
							return
						}
						leave := inside.Enter(e, held)
						e.Pass(100 * time.Microsecond)
						leave()
						e.Unlock(ctx, held)
					}
				})
			}
		}
	}
	wg.Wait()
	if grants := e.Rec.Grants(key); grants != n*rounds {
		e.T.Errorf("%d grants, want %d", grants, n*rounds)
	}
}

func kindsQueue(e *env.Env) {
	clients, key := e.Clients(2), e.Key("item")
	held := write(e, clients[0], key)
	var waiting []*env.Waiter
	for range 3 {
		for _, c := range clients {
			for _, l := range ways(c) {
				waiting = append(waiting, e.Wait(l, key))
			}
		}
	}
	release(e, held)
	for left := waiting; len(left) > 0; { // readers are among the first
		w := env.First(e.Soon, left)
		e.Unlock(w.Gets(0))
		left = env.Without(left, w)
	}
	for i, w := range waiting {
		if readers := 3 * len(clients); w.Held.Reads && w.Held.Nth > 1+readers {
			e.T.Errorf("call %d, a reader, received grant %d", i, w.Held.Nth)
		}
	}
}

func cancelWriter(_ *env.Env, _ *env.Client, w *env.Waiter) error {
	w.Cancel()
	return context.Canceled
}

func closeWriter(e *env.Env, c *env.Client, _ *env.Waiter) error {
	if err := c.Redis.Close(); err != nil {
		e.T.Errorf("Close: %v", err)
	}
	return lockmw.ErrClosed
}

// writerGivesUp makes a writer that waits between two readers give up.
func writerGivesUp(e *env.Env, givesUp func(e *env.Env, c *env.Client, w *env.Waiter) error) {
	for _, kind := range ways(e.Client()) {
		if kind.reads {
			continue
		}
		clients, key := e.Clients(3), e.Key("item")
		first := read(e, clients[0], key)
		w := e.Wait(wayOf(clients[1], kind.name), key)
		readers := []*env.Waiter{behind(e, clients[0], key), behind(e, clients[2], key)}
		why := givesUp(e, clients[1], w)
		w.Fails(e.Soon, why)
		holds := together(e, readers)
		e.Free(clients[2].Reader(), key)
		release(e, holds...)
		release(e, first)
		e.Free(clients[0].RW, key)
	}
}

// wayOf returns the way with this name.
func wayOf(c *env.Client, name string) way {
	for _, w := range ways(c) {
		if w.name == name {
			return w
		}
	}
	panic(fmt.Sprintf("no way %q", name))
}

func writerDies(e *env.Env) {
	p, clients, key := e.Process(), e.Clients(2), e.Key("item")
	first := read(e, clients[0], key)
	p.LockAs("write", key, 0).Waits()
	readers := []*env.Waiter{behind(e, clients[0], key), behind(e, clients[1], key)}
	killed := p.Kill()
	readers[0].RunsPastDead(key, killed.Add(env.DeadAfter), env.BeatInterval+2*env.PollInterval)
	holds := together(e, readers)
	release(e, holds...)
	release(e, first)
	e.Free(clients[0].RW, key)
}
