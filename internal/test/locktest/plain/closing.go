package plain

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

var closing = []env.Scenario{
	env.Case("Close ends waits and holds and releases the locks", closeEndsAll, env.OnServer|env.Shares|env.Sample),
	env.Case("Close under load ends every call", closeUnderLoad, env.OnServer|env.Shares),
	env.Case("Close returns although the server does not answer", closeWithSilentServer, env.OnServer|env.OneNode|env.Shares),
	env.Case("Close cancels what could not be cancelled before", closeUndoes, env.OnServer|env.InBubble),
	env.Case("Shutdown waits until holds finish", shutdownWaits, env.OnServer|env.Shares),
	env.Case("Shutdown ends with its context", shutdownEnds, env.OnServer|env.Shares|env.Sample),
}

func closeEndsAll(e *env.Env) {
	a, b := e.Client(), e.Client()
	mine, theirs := e.Key("user"), e.Key("user")
	ctx, held := e.Lock(a, mine)
	theirCtx, their := e.Lock(b, theirs)
	queued := []*env.Waiter{e.Wait(a, mine), e.Wait(a, theirs), e.Wait(a, theirs)}
	next := e.Wait(b, mine)
	if err := a.Close(); err != nil {
		e.T.Errorf("Close: %v", err)
	}
	for _, w := range queued {
		w.Fails(e.Soon, lockmw.ErrClosed)
	}
	if e.Ends(ctx) {
		e.Is("the cause of the context's end", context.Cause(ctx), lockmw.ErrClosed)
	}
	e.Unlock(next.Gets(e.Soon))
	e.Is("Unlock after Close", held.Unlock(), lockmw.ErrClosed)
	for _, wait := range []time.Duration{0, lockmw.Forever} {
		_, _, err := e.Rec.Lock(e.Ctx, a, e.Key("user"), lockmw.WithWait(wait))
		e.Is("Lock after Close", err, lockmw.ErrClosed)
	}
	if err := a.Close(); err != nil {
		e.T.Errorf("second Close: %v", err)
	}
	e.Unlock(theirCtx, their)
	e.Free(b, theirs)
}

func closeUnderLoad(e *env.Env) {
	a, b, key := e.Client(), e.Client(), e.Key("item")
	var wg sync.WaitGroup
	started := make(chan struct{}, 1)
	for i := range 20 {
		wg.Go(func() {
			l := []*env.Client{a, b}[i%2]
			for round := 0; l == a || round < 20; round++ {
				ctx, held, err := e.Rec.Lock(e.Ctx, l, key)
				if err == nil {
					select {
					case started <- struct{}{}:
					default:
					}
					time.Sleep(100 * time.Microsecond) // work
					err = held.Unlock()
					_ = ctx
				}
				if errors.Is(err, lockmw.ErrClosed) && l == a {
					return
				}
				if err != nil {
					e.T.Errorf("client %d: %v", i%2, err)
					return
				}
			}
		})
	}
	for range 50 { // grants
		<-started
	}
	if err := a.Close(); err != nil {
		e.T.Errorf("Close: %v", err)
	}
	wg.Wait()
	e.Free(b, key)
}

func closeWithSilentServer(e *env.Env) {
	a, key := e.Client(lockmw.WithUnlockTimeout(200*time.Millisecond)).Warm(), e.Key("user")
	lease := e.Ample(time.Second)
	ctx, held := e.Lock(a, key, lockmw.WithLease(lease))
	w := e.Wait(a, key)
	a.Wire.Silence()
	start := time.Now()
	_ = a.Close() // the release may be unconfirmed
	// Close waits for goroutines that wait for the redis client, whose ReadTimeout is 5 s.
	if took := e.Pace.Since(start); took > 10*time.Second {
		e.T.Errorf("Close took %v", took)
	}
	w.Fails(e.Soon, lockmw.ErrClosed)
	e.Ends(ctx)
	e.Is("Unlock after Close", held.Unlock(), lockmw.ErrClosed)
	// Other clients get past what Close could not cancel, as past a dead process.
	next := e.Call(e.Ctx, e.Client(), key)
	e.Unlock(next.Gets(lease + env.AcceptWindow + 2*env.PollInterval))
}

// closeUndoes closes a client while it retries to cancel a ticket.
func closeUndoes(e *env.Env) {
	a, b, key := e.ClientOver(env.Repeats(-1)).Warm(), e.Client(), e.Key("user")
	ctx, held := e.Lock(b, key)
	waiting, leave := context.WithCancel(e.Ctx)
	w := e.WaitWith(waiting, a, key)
	a.Wire.Cut()
	leave()
	w.Fails(e.Soon, context.Canceled)
	e.Pass(20 * time.Millisecond)
	a.Wire.Restore()
	if err := a.Close(); err != nil {
		e.T.Errorf("Close: %v", err)
	}
	if n := e.Server.Admin.ZCard(e.Ctx, e.Server.QueueKey(key)).Val(); n != 0 {
		e.T.Errorf("%d tickets are queued after Close", n)
	}
	e.Unlock(ctx, held)
}

func shutdownWaits(e *env.Env) {
	a, b, key := e.Client(), e.Client(), e.Key("user")
	lease := e.Ample(600 * time.Millisecond)
	ctx, held := e.Lock(a, key, lockmw.WithLease(lease))
	w := e.Wait(a, key)
	var shutdown error
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		shutdown = a.Shutdown(e.Ctx)
	}()
	w.Fails(e.Soon, lockmw.ErrClosed)
	_, _, err := e.Rec.Lock(e.Ctx, a, e.Key("user"))
	e.Is("Lock after Shutdown", err, lockmw.ErrClosed)
	time.Sleep(2 * lease) // work that Shutdown waits for
	if err := ctx.Err(); err != nil {
		e.T.Errorf("the hold has ended: %v", context.Cause(ctx))
	}
	select {
	case <-returned:
		e.T.Errorf("Shutdown returned before the hold ended: %v", shutdown)
	default:
	}
	e.Busy(b, key)
	e.Unlock(ctx, held)
	if !env.Wait(e.Pace, returned, e.Soon) {
		e.T.Error("Shutdown did not return after the hold ended")
	} else if shutdown != nil {
		e.T.Errorf("Shutdown: %v", shutdown)
	}
	e.Free(b, key)
}

func shutdownEnds(e *env.Env) {
	a, key := e.Client(), e.Key("user")
	held, hold := e.Lock(a, key)
	ctx, cancel := context.WithTimeout(e.Ctx, 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	e.Is("Shutdown", a.Shutdown(ctx), context.DeadlineExceeded)
	if took := e.Pace.Since(start); took > 50*time.Millisecond+e.Soon {
		e.T.Errorf("Shutdown took %v", took)
	}
	e.Unlock(held, hold)
}
