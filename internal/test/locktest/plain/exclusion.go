package plain

import (
	"context"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/recording"
	"github.com/lockmw/go/lockmw"
)

var exclusion = []env.Scenario{
	env.Case("64 contenders of one process never overlap", func(e *env.Env) { contenders(e, 1) }, env.Shares|env.Costly|env.Sample),
	env.Case("64 contenders of four processes never overlap", func(e *env.Env) { contenders(e, 4) }, env.OnServer|env.Shares|env.Costly|env.Sample),
	env.Case("contenders for many keys with shared pipelines never overlap", manyKeys, env.Shares|env.Costly),
	env.Case("different keys do not exclude each other", differentKeys, env.Shares|env.Sample),
	env.Case("TryLock after a release does not return ErrBusy", releasedIsFree, env.OnServer|env.InBubble),
	env.Case("observers receive the right events", observed, env.Shares|env.Sample),
	env.Case("observers are notified once that a call waits", announcedOnce, env.Shares|env.Sample),
}

func contenders(e *env.Env, processes int) {
	contenders, rounds := 64, env.Fewer(25)
	key := e.Key("item")
	var inside env.Room
	e.Contend(e.Clients(processes), key, contenders, rounds, func(h *recording.Held) {
		defer inside.Enter(e, h)()
		if e.Config.Bubble { // in real time, time passes anyway
			time.Sleep(100 * time.Microsecond) // work
		}
	})
	if n := e.Rec.Grants(key); n != contenders*rounds {
		e.T.Errorf("%d grants, want %d", n, contenders*rounds)
	}
}

func manyKeys(e *env.Env) {
	const keys, contenders = 48, 32 // per process
	rounds := env.Fewer(20)
	clients := e.Clients(3)
	for _, c := range clients {
		c.Warm()
	}
	all := make([]string, keys)
	for i := range all {
		all[i] = e.Key("item")
	}
	inside := make([]env.Room, keys)
	var wg sync.WaitGroup
	for i := range contenders * len(clients) {
		l := clients[i%len(clients)].Nth(i / len(clients))
		wg.Go(func() {
			for round := range rounds {
				k := (i*7 + round*11) % keys
				ctx, held, err := e.Rec.Lock(e.Ctx, l, all[k])
				if err != nil {
					e.T.Errorf("Lock: %v", err)
					return
				}
				inside[k].Enter(e, held)()
				e.Unlock(ctx, held)
			}
		})
	}
	wg.Wait()
}

func differentKeys(e *env.Env) {
	c := e.Client()
	for range 10 {
		defer e.Unlock(e.Lock(c, e.Key("item"), lockmw.WithWait(0)))
	}
}

// releasedIsFree lets TryLock meet an earlier TryLock of its process. It may share that call's answer only if the answer is
// newer than itself.
func releasedIsFree(e *env.Env) {
	c, other, key := e.Client().Warm(), e.Client(), e.Key("item")
	ctx, held := e.Lock(other, key)
	answer := c.Wire.HoldReply(key)
	earlier := e.Call(e.Ctx, c.Rival, key, lockmw.WithWait(0))
	e.Caught(answer)
	synctest.Wait() // all of several nodes have answered before the release
	e.Unlock(ctx, held)
	later := e.Call(e.Ctx, c.Rival, key, lockmw.WithWait(0))
	synctest.Wait()
	answer.Deliver()
	earlier.Fails(e.Soon, lockmw.ErrBusy)
	e.Unlock(later.Gets(e.Soon))
}

func observed(e *env.Env) {
	var mu sync.Mutex
	var events []string
	mode := e.Config.Mode
	note := func(a lockmw.Attempt, event string) {
		mu.Lock()
		defer mu.Unlock()
		if a.Mode != mode {
			e.T.Errorf("%s: the mode is %q, want %q", event, a.Mode, mode)
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
	c, key := e.Client(), e.Key("item")
	ctx, held := e.Lock(c, key, lockmw.WithObserver(observer))
	_, nested, err := c.Lock(ctx, key, lockmw.WithObserver(observer)) // not observed
	if err != nil {
		e.T.Fatal(err)
	}
	mode = e.Config.RivalMode()
	_, _, err = e.Rec.Lock(e.Ctx, c.Rival, key, lockmw.WithObserver(observer), lockmw.WithWait(0))
	e.Is("TryLock of a busy lock", err, lockmw.ErrBusy)
	_, _, err = e.Rec.Lock(e.Ctx, c.Rival, key, lockmw.WithObserver(observer), lockmw.WithWait(e.Brief()))
	e.Is("an expired wait", err, lockmw.ErrBusy)
	mode = e.Config.Mode
	if err := nested.Unlock(); err != nil {
		e.T.Error(err)
	}
	e.Unlock(ctx, held)
	want := []string{"start", "acquired", "start", "failed", "start", "contended", "failed", "released"}
	mu.Lock()
	defer mu.Unlock()
	if len(events) != len(want) {
		e.T.Fatalf("events are %q, want %q", events, want)
	}
	for i := range want {
		if events[i] != want[i] {
			e.T.Fatalf("events are %q, want %q", events, want)
		}
	}
}

func announcedOnce(e *env.Env) {
	key := e.Key("item")
	clients := []*env.Client{e.Client(lockmw.WithLocalPasses(0)), e.Client(lockmw.WithLocalPasses(0))}
	ctx, held := e.Lock(clients[0], key)
	waiters := make([]*env.Waiter, 8)
	told := make([]atomic.Int32, len(waiters))
	for i := range waiters {
		waiters[i] = e.Wait(clients[i%2], key, lockmw.WithObserver(&lockmw.Observer{
			Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { told[i].Add(1) },
		}))
	}
	e.Unlock(ctx, held)
	for left := waiters; len(left) > 0; { // each grant leaves the others waiting
		w := env.First(e.Soon, left)
		e.Unlock(w.Gets(0))
		left = env.Without(left, w)
	}
	for i := range told {
		if n := told[i].Load(); n != 1 {
			e.T.Errorf("waiter %d was reported %d times", i, n)
		}
	}
}
