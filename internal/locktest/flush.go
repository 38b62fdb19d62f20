package locktest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/lockmw"
)

var flushes = []scenario{
	{"of scripts every ten operations goes unnoticed", scriptFlush, server},
	{"of everything under load keeps the tokens increasing", func(e *env) { e.flushAll(0) }, server},
	{"of everything under load brings every waiter back", func(e *env) { e.flushAll(localPasses) }, server},
	{"of everything lets waiters queue again", flushWhileQueued, server},
}

func scriptFlush(e *env) {
	key := e.key("item")
	var n atomic.Int32
	e.contend(e.clients(3), key, 12, 20, func(context.Context) {
		if n.Add(1)%10 == 0 {
			if err := e.admin.ScriptFlush(e.ctx).Err(); err != nil {
				e.t.Error(err)
			}
		}
	})
	if grants := e.rec.Grants(key); grants != 12*20 {
		e.t.Errorf("%d grants, want %d", grants, 12*20)
	}
}

// flushAll empties the server while four processes contend.
func (e *env) flushAll(passes int) {
	const contenders, rounds, flushes = 16, 30, 5
	key := e.key("item")
	e.rec.Lossy(passes > 0)
	clients := make([]*client, 4)
	for i := range clients {
		clients[i] = e.client(lockmw.WithLocalPasses(passes))
	}
	var ops atomic.Int32
	var wg sync.WaitGroup
	for i := range contenders {
		wg.Go(func() {
			for range rounds {
				_, held, err := e.rec.Lock(e.ctx, clients[i%len(clients)], key)
				if err != nil {
					e.t.Errorf("Lock: %v", err)
					return
				}
				// Tokens are seeded from the server's clock, which has to go on: work that takes time.
				time.Sleep(time.Millisecond)
				if ops.Add(1)%(contenders*rounds/flushes) == 0 {
					if err := e.admin.FlushAll(e.ctx).Err(); err != nil {
						e.t.Error(err)
					}
				}
				if err := held.Unlock(); err != nil && !errors.Is(err, lockmw.ErrLost) {
					e.t.Errorf("Unlock: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if n := ops.Load(); n != contenders*rounds {
		e.t.Errorf("%d grants, want %d", n, contenders*rounds)
	}
	e.free(clients[0], key)
}

func flushWhileQueued(e *env) {
	a, b, c, key := e.client(), e.client(), e.client(), e.key("item")
	ctx, held := e.lock(a, key)
	waiters := []*waiter{e.wait(b, key), e.wait(b, key), e.wait(c, key), e.wait(c, key)}
	time.Sleep(time.Millisecond) // new tokens come from the server's clock
	e.rec.Lossy(false)
	if err := e.admin.FlushAll(e.ctx).Err(); err != nil {
		e.t.Fatal(err)
	}
	token := held.Token()
	for left := waiters; len(left) > 0; {
		w := e.first(2*pollInterval+e.soon, left)
		_, next := w.gets(0)
		if next.Token() <= token {
			e.t.Errorf("token %d after %d", next.Token(), token)
		}
		token = next.Token()
		e.unlock(w.ctx, next)
		left = without(left, w)
	}
	if err := held.Unlock(); err != nil {
		e.is("Unlock of a lock that was flushed", err, lockmw.ErrLost)
	}
	_ = ctx
}
