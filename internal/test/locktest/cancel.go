package locktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/lockmw/go/lockmw"
)

var cancelling = []scenario{
	{"while queued ends the call at once", cancelledWhileQueued, shares},
	{"while queued removes the ticket", cancelledTicketIsGone, server | shares | sample},
	{"before the call sends nothing", cancelledBefore, shares | sample},
	{"one of many leaves the others waiting", cancelOneOfMany, shares},
	{"in the instant of the grant lets the next one run", cancelledAtGrant, shares | costly | sample},
	{"in the instant of the first acquire leaves nothing", cancelledAtAcquire, shares},
	{"by a deadline is told from a wait that ran out", cancelledByDeadline, shares},
	{"with a cause tells it", cancelledWithCause, shares | sample},
}

func cancelledWhileQueued(e *env) {
	c, key := e.client(), e.key("user")
	ctx, held := e.lock(c, key)
	for _, l := range []*client{c, e.client()} {
		w := e.wait(l, key)
		w.cancel()
		w.fails(e.soon, lockmw.ErrBusy, context.Canceled)
	}
	e.unlock(ctx, held)
	e.free(c, key)
}

func cancelledTicketIsGone(e *env) {
	key := e.key("user")
	ctx, held := e.lock(e.client(), key)
	w := e.wait(e.client(), key)
	queue := e.redisKey(key) + ":queue"
	e.eventually(e.soon, func() string {
		if e.admin.Exists(e.ctx, queue).Val() == 1 {
			return ""
		}
		return "nobody is queued"
	})
	w.cancel()
	w.fails(e.soon, context.Canceled)
	e.eventually(e.soon, func() string {
		if e.admin.Exists(e.ctx, queue).Val() == 0 {
			return ""
		}
		return "the ticket is still queued"
	})
	e.unlock(ctx, held)
}

func cancelledBefore(e *env) {
	c, key := e.client(), e.key("user")
	if c.wire != nil {
		c.wire.Record()
	}
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	_, _, err := e.rec.Lock(ctx, c, key)
	e.is("Lock with a context that has ended", err, context.Canceled)
	if errors.Is(err, lockmw.ErrUnavailable) {
		e.t.Errorf("the caller's own end is taken for the server's: %v", err)
	}
	if c.wire != nil && len(c.wire.Sent()) > 0 {
		e.t.Errorf("sent %q", c.wire.Sent())
	}
	e.free(c, key)
}

func cancelOneOfMany(e *env) {
	c, key := e.client(), e.key("user")
	clients := []*client{c, e.client(), e.client()}
	ctx, held := e.lock(c, key)
	waiters := make([]*waiter, 12)
	for i := range waiters {
		waiters[i] = e.wait(clients[i%len(clients)], key)
	}
	var left []*waiter
	for i, w := range waiters {
		if i%2 == 1 {
			left = append(left, w)
			continue
		}
		w.cancel()
		w.fails(e.soon, context.Canceled)
	}
	e.unlock(ctx, held)
	for len(left) > 0 {
		w := e.first(e.soon, left)
		e.unlock(w.gets(0))
		left = without(left, w)
	}
}

func cancelledAtGrant(e *env) {
	rounds := fewer(200)
	if !e.cfg.Bubble {
		rounds = 60
	}
	a, b, c := e.client(), e.client(), e.client()
	for round := range rounds {
		key := e.key("user")
		ctx, held := e.lock(a, key)
		first := e.wait(b, key)
		next := e.wait([]*client{b, c}[round%2], key)
		released := make(chan struct{})
		go func() {
			defer close(released)
			e.unlock(ctx, held)
		}()
		if !e.cfg.Bubble { // there the scheduler alone decides who is first
			time.Sleep(time.Duration(rand.IntN(1500)) * time.Microsecond) // spread over the hand-over
		}
		first.cancel()
		<-released
		if !first.returns(e.soon) {
			return
		}
		if first.err == nil {
			e.unlock(first.ctx, first.held)
		} else {
			e.is("the cancelled call", first.err, lockmw.ErrBusy, context.Canceled)
		}
		e.unlock(next.gets(e.soon))
		if e.t.Failed() {
			return
		}
	}
}

func cancelledAtAcquire(e *env) {
	a, b := e.client(), e.client()
	for range 60 {
		key := e.key("user")
		ctx, cancel := context.WithCancel(e.ctx)
		w := e.call(ctx, a, key)
		if !e.cfg.Bubble {
			time.Sleep(time.Duration(rand.IntN(500)) * time.Microsecond) // spread over the acquire
		}
		cancel()
		if !w.returns(e.soon) {
			return
		}
		if w.err == nil {
			e.unlock(w.ctx, w.held)
		} else {
			e.is("the cancelled call", w.err, context.Canceled)
		}
		e.free(b, key)
		if e.t.Failed() {
			return
		}
	}
}

func cancelledByDeadline(e *env) {
	c, key := e.client(), e.key("user")
	defer e.unlock(e.lock(c, key))
	ctx, cancel := context.WithTimeout(e.ctx, brief)
	defer cancel()
	_, _, err := e.rec.Lock(ctx, c.rival, key)
	e.is("Lock until the context's deadline", err, lockmw.ErrBusy, context.DeadlineExceeded)
	_, _, err = e.rec.Lock(e.ctx, c.rival, key, lockmw.WithWait(brief))
	e.is("Lock until its wait runs out", err, lockmw.ErrBusy)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, lockmw.ErrUnavailable) {
		e.t.Errorf("a wait that ran out is more than busy: %v", err)
	}
	failure, ok := errors.AsType[*lockmw.Error](err)
	if !ok || failure.Waited < brief || len(failure.Holders) != 1 {
		e.t.Errorf("the error does not tell how long it waited for whom: %+v", failure)
	}
}

func cancelledWithCause(e *env) {
	c, key := e.client(), e.key("user")
	defer e.unlock(e.lock(c, key))
	ctx, cancel := context.WithCancelCause(e.ctx)
	w := e.waitWith(ctx, c, key)
	cancel(errors.New("the visitor left"))
	w.fails(e.soon, lockmw.ErrBusy, context.Canceled)
}
