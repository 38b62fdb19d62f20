package locktest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockmw/go/lockmw"
)

var closing = []scenario{
	{"ends waits and holds and releases the locks", closeEndsAll, server | shares | sample},
	{"under load ends every call", closeUnderLoad, server | shares},
	{"returns when the server does not answer", closeWithSilentServer, server | shares},
	{"takes back what could not be before", closeUndoes, server | bubble},
	{"Shutdown lets holds finish", shutdownWaits, server | shares},
	{"Shutdown ends with its context", shutdownEnds, server | shares | sample},
}

func closeEndsAll(e *env) {
	a, b := e.client(), e.client()
	mine, theirs := e.key("user"), e.key("user")
	ctx, held := e.lock(a, mine)
	theirCtx, their := e.lock(b, theirs)
	queued := []*waiter{e.wait(a, mine), e.wait(a, theirs), e.wait(a, theirs)}
	next := e.wait(b, mine)
	if err := a.redis.Close(); err != nil {
		e.t.Errorf("Close: %v", err)
	}
	for _, w := range queued {
		w.fails(e.soon, lockmw.ErrClosed)
	}
	if e.ends(ctx) {
		e.is("the cause of the context's end", context.Cause(ctx), lockmw.ErrClosed)
	}
	e.unlock(next.gets(e.soon))
	e.is("Unlock after Close", held.Unlock(), lockmw.ErrClosed)
	for _, wait := range []time.Duration{0, lockmw.Forever} {
		_, _, err := e.rec.Lock(e.ctx, a, e.key("user"), lockmw.WithWait(wait))
		e.is("Lock after Close", err, lockmw.ErrClosed)
	}
	if err := a.redis.Close(); err != nil {
		e.t.Errorf("Close once more: %v", err)
	}
	e.unlock(theirCtx, their)
	e.free(b, theirs)
}

func closeUnderLoad(e *env) {
	a, b, key := e.client(), e.client(), e.key("item")
	var wg sync.WaitGroup
	started := make(chan struct{}, 1)
	for i := range 20 {
		wg.Go(func() {
			l := []*client{a, b}[i%2]
			for round := 0; l == a || round < 20; round++ {
				ctx, held, err := e.rec.Lock(e.ctx, l, key)
				if err == nil {
					select {
					case started <- struct{}{}:
					default:
					}
					time.Sleep(100 * time.Microsecond) // the work
					err = held.Unlock()
					_ = ctx
				}
				if errors.Is(err, lockmw.ErrClosed) && l == a {
					return
				}
				if err != nil {
					e.t.Errorf("client %d: %v", i%2, err)
					return
				}
			}
		})
	}
	for range 50 { // holds, at least
		<-started
	}
	if err := a.redis.Close(); err != nil {
		e.t.Errorf("Close: %v", err)
	}
	wg.Wait()
	e.free(b, key)
}

func closeWithSilentServer(e *env) {
	a, key := e.warm(e.client(lockmw.WithUnlockTimeout(200*time.Millisecond))), e.key("user")
	ctx, held := e.lock(a, key, lockmw.WithLease(time.Second))
	w := e.wait(a, key)
	a.wire.Silence()
	start := time.Now()
	_ = a.redis.Close() // it may say that the release is not confirmed
	// It waits for its goroutines, and they for the redis client, whose ReadTimeout is 5 s.
	if took := time.Since(start); took > 6*time.Second {
		e.t.Errorf("Close took %v", took)
	}
	w.fails(e.soon, lockmw.ErrClosed)
	e.ends(ctx)
	e.is("Unlock after Close", held.Unlock(), lockmw.ErrClosed)
	// What Close could not take back is as good as dead: others get past it.
	next := e.call(e.ctx, e.client(), key)
	e.unlock(next.gets(time.Second + acceptWindow + 2*pollInterval))
}

// closeUndoes closes a client between two tries to take a place in the queue back.
func closeUndoes(e *env) {
	a, b, key := e.warm(e.clientOver(repeats(-1))), e.client(), e.key("user")
	ctx, held := e.lock(b, key)
	waiting, leave := context.WithCancel(e.ctx)
	w := e.waitWith(waiting, a, key)
	a.wire.Cut()
	leave()
	w.fails(e.soon, context.Canceled)
	e.pass(20 * time.Millisecond)
	a.wire.Restore()
	if err := a.redis.Close(); err != nil {
		e.t.Errorf("Close: %v", err)
	}
	if n := e.admin.ZCard(e.ctx, e.redisKey(key)+":queue").Val(); n != 0 {
		e.t.Errorf("%d wait for the lock after Close", n)
	}
	e.unlock(ctx, held)
}

func shutdownWaits(e *env) {
	a, b, key := e.client(), e.client(), e.key("user")
	const lease = 300 * time.Millisecond
	ctx, held := e.lock(a, key, lockmw.WithLease(lease))
	w := e.wait(a, key)
	var shutdown error
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		shutdown = a.redis.Shutdown(e.ctx)
	}()
	w.fails(e.soon, lockmw.ErrClosed)
	_, _, err := e.rec.Lock(e.ctx, a, e.key("user"))
	e.is("Lock after Shutdown", err, lockmw.ErrClosed)
	time.Sleep(3 * lease) // the work that Shutdown waits for
	if err := ctx.Err(); err != nil {
		e.t.Errorf("the hold has ended: %v", context.Cause(ctx))
	}
	select {
	case <-returned:
		e.t.Errorf("Shutdown returned before the hold's end: %v", shutdown)
	default:
	}
	e.busy(b, key)
	e.unlock(ctx, held)
	if !e.pace.wait(returned, e.soon) {
		e.t.Error("Shutdown does not return after the hold's end")
	} else if shutdown != nil {
		e.t.Errorf("Shutdown: %v", shutdown)
	}
	e.free(b, key)
}

func shutdownEnds(e *env) {
	a, key := e.client(), e.key("user")
	held, hold := e.lock(a, key)
	ctx, cancel := context.WithTimeout(e.ctx, 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	e.is("Shutdown", a.redis.Shutdown(ctx), context.DeadlineExceeded)
	if took := e.pace.since(start); took > 50*time.Millisecond+e.soon {
		e.t.Errorf("Shutdown took %v", took)
	}
	e.unlock(held, hold)
}
