package plain

import (
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

var waiterLimit = []env.Scenario{
	env.Case("a waiter beyond the limit fails immediately", tooManyWaiters, env.Shares|env.Sample),
	env.Case("waiters of other keys do not count", otherKeysWaiters, env.Shares|env.Sample),
}

func tooManyWaiters(e *env.Env) {
	const most = 3
	c, key := e.Client(), e.Key("user")
	ctx, held := e.Lock(c, key)
	waiters := make([]*env.Waiter, most)
	for i := range waiters {
		waiters[i] = e.Wait(c, key, lockmw.WithMaxWaiters(most))
	}
	start := time.Now()
	_, _, err := e.Rec.Lock(e.Ctx, c.Rival, key, lockmw.WithMaxWaiters(most))
	e.Is("one more waiter", err, lockmw.ErrTooManyWaiters)
	if took := e.Pace.Since(start); took > e.Soon {
		e.T.Errorf("the extra waiter failed after %v", took)
	}
	waiters[1].Cancel()
	waiters[1].Fails(e.Soon, lockmw.ErrBusy)
	waiters[1] = e.Wait(c, key, lockmw.WithMaxWaiters(most))
	e.Unlock(ctx, held)
	for _, w := range []*env.Waiter{waiters[0], waiters[2], waiters[1]} { // in call order
		e.Unlock(w.Gets(e.Soon))
	}
}

func otherKeysWaiters(e *env.Env) {
	c := e.Client()
	one, two := e.Key("user"), e.Key("user")
	ctx1, held1 := e.Lock(c, one)
	ctx2, held2 := e.Lock(c, two)
	w1 := e.Wait(c, one, lockmw.WithMaxWaiters(1))
	w2 := e.Wait(c, two, lockmw.WithMaxWaiters(1))
	e.Unlock(ctx1, held1)
	e.Unlock(ctx2, held2)
	e.Unlock(w1.Gets(e.Soon))
	e.Unlock(w2.Gets(e.Soon))
}
