package plain

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

var cancelling = []env.Scenario{
	env.Case("a queued call removes its ticket", cancelledTicketIsGone, env.OnServer|env.OneNode|env.Shares|env.Sample),
	env.Case("a call with a cancelled context sends nothing", cancelledBefore, env.Shares|env.Sample),
	env.Case("cancelling at the moment of the grant lets the next call run", cancelledAtGrant, env.Shares|env.Costly|env.Sample),
	env.Case("cancelling during the first acquire leaves nothing", cancelledAtAcquire, env.Shares),
	env.Case("a context's deadline and an expired wait return different errors", cancelledByDeadline, env.Shares),
	env.Case("a cause does not change the error", cancelledWithCause, env.Shares|env.Sample),
}

func cancelledTicketIsGone(e *env.Env) {
	key := e.Key("user")
	ctx, held := e.Lock(e.Client(), key)
	w := e.Wait(e.Client(), key)
	queue := e.Server.QueueKey(key)
	e.Eventually(e.Soon, func() string {
		if e.Server.Admin.Exists(e.Ctx, queue).Val() == 1 {
			return ""
		}
		return "no ticket is queued"
	})
	w.Cancel()
	w.Fails(e.Soon, context.Canceled)
	e.Eventually(e.Soon, func() string {
		if e.Server.Admin.Exists(e.Ctx, queue).Val() == 0 {
			return ""
		}
		return "the ticket is still queued"
	})
	e.Unlock(ctx, held)
}

func cancelledBefore(e *env.Env) {
	c, key := e.Client(), e.Key("user")
	if c.Wire != nil {
		c.Wire.Record()
	}
	ctx, cancel := context.WithCancel(e.Ctx)
	cancel()
	_, _, err := e.Rec.Lock(ctx, c, key)
	e.Is("Lock with a context that has ended", err, context.Canceled)
	if errors.Is(err, lockmw.ErrUnavailable) {
		e.T.Errorf("a cancelled context is reported as an unavailable server: %v", err)
	}
	if c.Wire != nil && len(c.Wire.Sent()) > 0 {
		e.T.Errorf("sent %q", c.Wire.Sent())
	}
	e.Free(c, key)
}

func cancelledAtGrant(e *env.Env) {
	rounds := env.Fewer(200)
	if !e.Config.Bubble {
		rounds = 60
	}
	a, b, c := e.Client(), e.Client(), e.Client()
	for round := range rounds {
		key := e.Key("user")
		ctx, held := e.Lock(a, key)
		first := e.Wait(b, key)
		next := e.Wait([]*env.Client{b, c}[round%2], key)
		released := make(chan struct{})
		go func() {
			defer close(released)
			e.Unlock(ctx, held)
		}()
		if !e.Config.Bubble { // in a bubble the scheduler alone decides the order
			time.Sleep(time.Duration(rand.IntN(1500)) * time.Microsecond) // spread over the hand-over
		}
		first.Cancel()
		<-released
		if !first.Returns(e.Soon) {
			return
		}
		if first.Err == nil {
			e.Unlock(first.Ctx, first.Held)
		} else {
			e.Is("the cancelled call", first.Err, lockmw.ErrBusy, context.Canceled)
		}
		e.Unlock(next.Gets(e.Soon))
		if e.T.Failed() {
			return
		}
	}
}

func cancelledAtAcquire(e *env.Env) {
	a, b := e.Client(), e.Client()
	for range 60 {
		key := e.Key("user")
		ctx, cancel := context.WithCancel(e.Ctx)
		w := e.Call(ctx, a, key)
		if !e.Config.Bubble {
			time.Sleep(time.Duration(rand.IntN(500)) * time.Microsecond) // spread over the acquire
		}
		cancel()
		if !w.Returns(e.Soon) {
			return
		}
		if w.Err == nil {
			e.Unlock(w.Ctx, w.Held)
		} else {
			e.Is("the cancelled call", w.Err, context.Canceled)
		}
		e.Free(b, key)
		if e.T.Failed() {
			return
		}
	}
}

func cancelledByDeadline(e *env.Env) {
	c, key := e.Client(), e.Key("user")
	defer e.Unlock(e.Lock(c, key))
	ctx, cancel := context.WithTimeout(e.Ctx, e.Brief())
	defer cancel()
	_, _, err := e.Rec.Lock(ctx, c.Rival, key)
	e.Is("Lock past the context's deadline", err, lockmw.ErrBusy, context.DeadlineExceeded)
	_, _, err = e.Rec.Lock(e.Ctx, c.Rival, key, lockmw.WithWait(e.Brief()))
	e.Is("Lock past its wait", err, lockmw.ErrBusy)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, lockmw.ErrUnavailable) {
		e.T.Errorf("an expired wait is reported as more than busy: %v", err)
	}
	failure, ok := errors.AsType[*lockmw.Error](err)
	if !ok || failure.Waited < e.Brief() || len(failure.Holders) != 1 {
		e.T.Errorf("the error lacks the wait or the holder: %+v", failure)
	}
}

func cancelledWithCause(e *env.Env) {
	c, key := e.Client(), e.Key("user")
	defer e.Unlock(e.Lock(c, key))
	ctx, cancel := context.WithCancelCause(e.Ctx)
	w := e.WaitWith(ctx, c, key)
	cancel(errors.New("the visitor left"))
	w.Fails(e.Soon, lockmw.ErrBusy, context.Canceled)
}
