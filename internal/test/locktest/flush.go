package locktest

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/lockmw"
)

var flushes = []scenario{
	{"of scripts every ten operations goes unnoticed", scriptFlush, server | alone | sample},
	{"of scripts is noticed by nothing that runs in the background", scriptFlushInBackground, server | alone},
	{"of everything under load keeps the tokens increasing", func(e *env) { e.flushAll(0) }, server | alone},
	{"of everything under load brings every waiter back", func(e *env) { e.flushAll(localPasses) }, server | alone | costly},
	{"of everything lets waiters queue again", flushWhileQueued, server | alone},
}

func scriptFlush(e *env) {
	key := e.key("item")
	var n atomic.Int32
	e.contend(e.clients(3), key, 12, 20, func(*Held) {
		if n.Add(1)%10 == 0 {
			e.flushScripts()
		}
	})
	if grants := e.rec.Grants(key); grants != 12*20 {
		e.t.Errorf("%d grants, want %d", grants, 12*20)
	}
}

// flushScripts makes the server forget all scripts.
func (e *env) flushScripts() {
	e.t.Helper()
	if err := e.admin.ScriptFlush(e.ctx).Err(); err != nil {
		e.t.Error(err)
	}
}

func scriptFlushInBackground(e *env) {
	const lease = 300 * time.Millisecond
	a, b, key := e.client(), e.client(), e.key("item")
	renewals := make(chan error, 100)
	ctx, held := e.lock(a, key, lockmw.WithLease(lease), lockmw.WithObserver(&lockmw.Observer{
		Renewed: func(_ context.Context, _ lockmw.Attempt, err error) { renewals <- err },
	}))
	w, cancelled := e.wait(a, key), e.wait(b, key)
	e.ticketsQueued(key, e.ticketsOf(1, 2))
	for range 3 {
		seen := e.admin.HGetAll(e.ctx, e.redisKey(key)+":tickets").Val()
		e.flushScripts()
		if err := next(e, renewals); err != nil {
			e.t.Errorf("a renewal: %v", err)
		}
		e.flushScripts()
		e.eventually(pollInterval+e.soon, func() string {
			if maps.Equal(seen, e.admin.HGetAll(e.ctx, e.redisKey(key)+":tickets").Val()) {
				return "no poll has arrived"
			}
			return ""
		})
	}
	e.flushScripts()
	cancelled.cancel()
	e.ticketsQueued(key, e.ticketsOf(0, 1))
	e.flushScripts()
	if err := held.Extend(ctx, lease); err != nil {
		e.t.Error(err)
	}
	e.flushScripts()
	e.unlock(ctx, held)
	e.flushScripts()
	e.unlock(w.gets(e.soon))
	cancelled.fails(e.soon, context.Canceled)
}

// flushAll empties the server while four processes contend.
func (e *env) flushAll(passes int) {
	const contenders, rounds, flushes = 16, 30, 5
	key := e.key("item")
	clients := make([]*client, 4)
	for i := range clients {
		clients[i] = e.client(lockmw.WithLocalPasses(passes))
	}
	var ops atomic.Int32
	var wg sync.WaitGroup
	for i := range contenders {
		l := clients[i%len(clients)].nth(i / len(clients))
		wg.Go(func() {
			for range rounds {
				_, held, err := e.rec.Lock(e.ctx, l, key)
				if err != nil {
					e.t.Errorf("Lock: %v", err)
					return
				}
				// Tokens are seeded from the server's clock, which has to go on: work that takes time.
				e.pass(time.Millisecond)
				if ops.Add(1)%(contenders*rounds/flushes) == 0 {
					e.flush(passes > 0)
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

// flush empties the server.
func (e *env) flush(passed bool) {
	e.t.Helper()
	e.rec.Lose(passed, func() int64 {
		var clock *redis.TimeCmd
		_, err := e.admin.TxPipelined(e.ctx, func(p redis.Pipeliner) error {
			p.FlushAll(e.ctx)
			clock = p.Time(e.ctx)
			return nil
		})
		if err != nil {
			e.t.Error(err)
		}
		return clock.Val().UnixMicro()
	})
}

func flushWhileQueued(e *env) {
	a, b, c, key := e.client(), e.client(), e.client(), e.key("item")
	ctx, held := e.lock(a, key)
	waiters := []*waiter{e.wait(b, key), e.wait(b, key), e.wait(c, key), e.wait(c, key)}
	e.pass(time.Millisecond) // new tokens come from the server's clock
	e.flush(false)
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
