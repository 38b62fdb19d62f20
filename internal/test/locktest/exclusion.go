package locktest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/lockmw"
)

var exclusion = []scenario{
	{"64 contenders of one process never overlap", func(e *env) { e.contenders(1) }, shares | costly | sample},
	{"64 contenders of four processes never overlap", func(e *env) { e.contenders(4) }, server | shares | costly | sample},
	{"contenders for many keys, which share commands, never overlap", manyKeys, shares | costly},
	{"different keys do not exclude each other", differentKeys, shares | sample},
	{"a lock that is taken is busy for everybody else", takenIsBusy, shares},
	{"a lock that was released is not busy for a try that comes later", releasedIsFree, server | bubble},
	{"observers are told the truth", observed, shares | sample},
	{"observers are told once that a call waits", announcedOnce, shares | sample},
}

func (e *env) contenders(processes int) {
	contenders, rounds := 64, fewer(50)
	key := e.key("item")
	var inside room
	e.contend(e.clients(processes), key, contenders, rounds, func(h *Held) {
		defer inside.enter(e, h)()
		if e.cfg.Bubble { // elsewhere time passes by itself
			time.Sleep(100 * time.Microsecond) // the work
		}
	})
	if n := e.rec.Grants(key); n != contenders*rounds {
		e.t.Errorf("%d grants, want %d", n, contenders*rounds)
	}
}

func manyKeys(e *env) {
	const keys, contenders = 48, 32 // of each process
	rounds := fewer(20)
	clients := e.clients(3)
	for _, c := range clients {
		e.warm(c)
	}
	all := make([]string, keys)
	for i := range all {
		all[i] = e.key("item")
	}
	inside := make([]room, keys)
	var wg sync.WaitGroup
	for i := range contenders * len(clients) {
		l := clients[i%len(clients)].nth(i / len(clients))
		wg.Go(func() {
			for round := range rounds {
				k := (i*7 + round*11) % keys
				ctx, held, err := e.rec.Lock(e.ctx, l, all[k])
				if err != nil {
					e.t.Errorf("Lock: %v", err)
					return
				}
				inside[k].enter(e, held)()
				e.unlock(ctx, held)
			}
		})
	}
	wg.Wait()
}

func differentKeys(e *env) {
	c := e.client()
	for range 10 {
		defer e.unlock(e.lock(c, e.key("item"), lockmw.WithWait(0)))
	}
}

func takenIsBusy(e *env) {
	c, other := e.client(), e.client()
	key := e.key("item")
	ctx, held := e.lock(c, key)
	for _, l := range []*client{c, other} {
		e.busy(l, key)
		start := time.Now()
		_, _, err := e.rec.Lock(e.ctx, l.rival, key, lockmw.WithWait(brief))
		e.is("a wait that runs out", err, lockmw.ErrBusy)
		if took := time.Since(start); took < brief {
			e.t.Errorf("gave up after %v", took)
		}
	}
	e.unlock(ctx, held)
	e.free(other, key)
}

// releasedIsFree has a try meet another one of its process, on which it could rely if the answer to
// that were not older than itself.
func releasedIsFree(e *env) {
	c, other, key := e.warm(e.client()), e.client(), e.key("item")
	ctx, held := e.lock(other, key)
	answer := c.wire.HoldReply(key)
	earlier := e.call(e.ctx, c.rival, key, lockmw.WithWait(0))
	e.caught(answer)
	e.unlock(ctx, held)
	later := e.call(e.ctx, c.rival, key, lockmw.WithWait(0))
	synctest.Wait()
	answer.Deliver()
	earlier.fails(e.soon, lockmw.ErrBusy)
	e.unlock(later.gets(e.soon))
}

func observed(e *env) {
	var mu sync.Mutex
	var events []string
	mode := e.cfg.Mode
	note := func(a lockmw.Attempt, event string) {
		mu.Lock()
		defer mu.Unlock()
		if a.Mode != mode {
			e.t.Errorf("%s: the mode is %q, want %q", event, a.Mode, mode)
		}
		events = append(events, event)
	}
	observer := &lockmw.Observer{
		Start:     func(ctx context.Context, a lockmw.Attempt) context.Context { note(a, "start"); return ctx },
		Contended: func(_ context.Context, a lockmw.Attempt, _ lockmw.Contention) { note(a, "contended") },
		Acquired: func(ctx context.Context, a lockmw.Attempt, g lockmw.Acquisition) context.Context {
			note(a, "acquired")
			return ctx
		},
		Failed:   func(_ context.Context, a lockmw.Attempt, _ error) { note(a, "failed") },
		Lost:     func(_ context.Context, a lockmw.Attempt, _ error) { note(a, "lost") },
		Released: func(_ context.Context, a lockmw.Attempt, _ lockmw.Release) { note(a, "released") },
	}
	c, key := e.client(), e.key("item")
	ctx, held := e.lock(c, key, lockmw.WithObserver(observer))
	_, nested, err := c.Lock(ctx, key, lockmw.WithObserver(observer)) // not observed
	if err != nil {
		e.t.Fatal(err)
	}
	mode = e.cfg.rivalMode()
	_, _, err = e.rec.Lock(e.ctx, c.rival, key, lockmw.WithObserver(observer), lockmw.WithWait(0))
	e.is("trying a busy lock", err, lockmw.ErrBusy)
	_, _, err = e.rec.Lock(e.ctx, c.rival, key, lockmw.WithObserver(observer), lockmw.WithWait(brief))
	e.is("a wait that runs out", err, lockmw.ErrBusy)
	mode = e.cfg.Mode
	if err := nested.Unlock(); err != nil {
		e.t.Error(err)
	}
	e.unlock(ctx, held)
	want := []string{"start", "acquired", "start", "failed", "start", "contended", "failed", "released"}
	mu.Lock()
	defer mu.Unlock()
	if len(events) != len(want) {
		e.t.Fatalf("events are %q, want %q", events, want)
	}
	for i := range want {
		if events[i] != want[i] {
			e.t.Fatalf("events are %q, want %q", events, want)
		}
	}
}

func announcedOnce(e *env) {
	key := e.key("item")
	clients := []*client{e.client(lockmw.WithLocalPasses(0)), e.client(lockmw.WithLocalPasses(0))}
	ctx, held := e.lock(clients[0], key)
	waiters := make([]*waiter, 8)
	told := make([]atomic.Int32, len(waiters))
	for i := range waiters {
		waiters[i] = e.wait(clients[i%2], key, lockmw.WithObserver(&lockmw.Observer{
			Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { told[i].Add(1) },
		}))
	}
	e.unlock(ctx, held)
	for left := waiters; len(left) > 0; { // each of them leaves the others waiting anew
		w := e.first(e.soon, left)
		e.unlock(w.gets(0))
		left = without(left, w)
	}
	for i := range told {
		if n := told[i].Load(); n != 1 {
			e.t.Errorf("waiter %d was told %d times", i, n)
		}
	}
}
