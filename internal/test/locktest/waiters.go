package locktest

import (
	"time"

	"github.com/lockmw/go/lockmw"
)

var waiterLimit = []scenario{
	{"one too many fails at once", tooManyWaiters, shares | sample},
	{"those of other keys do not count", otherKeysWaiters, shares | sample},
}

func tooManyWaiters(e *env) {
	const most = 3
	c, key := e.client(), e.key("user")
	ctx, held := e.lock(c, key)
	waiters := make([]*waiter, most)
	for i := range waiters {
		waiters[i] = e.wait(c, key, lockmw.WithMaxWaiters(most))
	}
	start := time.Now()
	_, _, err := e.rec.Lock(e.ctx, c.rival, key, lockmw.WithMaxWaiters(most))
	e.is("one more waiter", err, lockmw.ErrTooManyWaiters)
	if took := e.pace.since(start); took > e.soon {
		e.t.Errorf("one more waiter was told after %v", took)
	}
	waiters[1].cancel()
	waiters[1].fails(e.soon, lockmw.ErrBusy)
	waiters[1] = e.wait(c, key, lockmw.WithMaxWaiters(most))
	e.unlock(ctx, held)
	for _, w := range []*waiter{waiters[0], waiters[2], waiters[1]} { // in the order of their calls
		e.unlock(w.gets(e.soon))
	}
}

func otherKeysWaiters(e *env) {
	c := e.client()
	one, two := e.key("user"), e.key("user")
	ctx1, held1 := e.lock(c, one)
	ctx2, held2 := e.lock(c, two)
	w1 := e.wait(c, one, lockmw.WithMaxWaiters(1))
	w2 := e.wait(c, two, lockmw.WithMaxWaiters(1))
	e.unlock(ctx1, held1)
	e.unlock(ctx2, held2)
	e.unlock(w1.gets(e.soon))
	e.unlock(w2.gets(e.soon))
}
