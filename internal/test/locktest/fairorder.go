package locktest

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/lockmw"
)

var fairOrders = []scenario{
	{"calls run in the order in which they came", strictOrder, fair | shares | sample},
	{"calls of several processes run in the order in which they came", orderOverProcesses, fair | realTime | shares | sample},
	{"5000 that came one after the other run in that order", manyInOrder, fair | inProc},
	{"5000 that came at once run in the order of the queue", manyAtOnce, fair | server | shares | costly},
	{"re-entry jumps no queue and waits in none", reentryBeforeLongQueue, fair | shares | sample},
	{"a try overtakes nobody who waits", triesOvertakeNobody, fair | shares},
	{"a try does not overtake those who wait for the end of a lease", triesAtTheEndOfALease, fair | shares},
}

func strictOrder(e *env) {
	clients, q := e.clients(3), e.line(e.key("item"))
	ctx, held := e.lock(clients[0], q.key)
	for range 15 {
		q.join(clients[rand.IntN(len(clients))])
	}
	e.unlock(ctx, held)
	q.run()
	if n := e.rec.Grants(q.key); n != 16 {
		e.t.Errorf("%d grants, want 16", n)
	}
}

func orderOverProcesses(e *env) {
	c, other, q := e.client(), e.client(), e.line(e.key("item"))
	processes := []*process{e.queuer(), e.queuer(), e.queuer()}
	ctx, held := e.lock(c, q.key)
	for range 5 {
		for _, i := range rand.Perm(len(processes) + 2) {
			switch i {
			case 0:
				q.join(c)
			case 1:
				q.join(other)
			default:
				q.joinIn(processes[i-2])
			}
		}
	}
	e.unlock(ctx, held)
	q.run()
}

// many is how many calls are many.
func (e *env) many() int {
	switch {
	case race.Enabled:
		return 300
	case e.server != nil && e.server.Mini != nil: // it sorts its queue anew at each look
		return 1000
	}
	return 5000
}

func manyInOrder(e *env) {
	key := e.key("item")
	ctx, held := e.lock(e.local, key)
	waiters := make([]*waiter, e.many())
	for i := range waiters {
		waiters[i] = e.wait(e.local, key)
	}
	e.unlock(ctx, held)
	for i, w := range waiters {
		ctx, held := w.gets(e.soon)
		if held.nth != i+2 {
			e.t.Fatalf("call %d was grant %d", i+2, held.nth)
		}
		e.unlock(ctx, held)
	}
}

func manyAtOnce(e *env) {
	clients, key := e.clients(6), e.key("item")
	ctx, held := e.lock(clients[0], key)
	n := e.many()
	q := e.line(key)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var order []string // of the grants
	for i := range n {
		s := &standing{name: q.newName()}
		wg.Go(func() {
			ctx, held, err := e.rec.Lock(e.ctx, clients[i%len(clients)], key, s.observer())
			if err != nil {
				e.t.Errorf("Lock: %v", err)
				return
			}
			mu.Lock()
			order = append(order, s.name)
			mu.Unlock()
			e.unlock(ctx, held)
		})
	}
	e.ticketsQueued(key, int64(n))
	queue := e.queue(key)
	start := time.Now()
	e.unlock(ctx, held)
	wg.Wait()
	took := time.Since(start)
	if !e.cfg.Bubble {
		e.tb.Logf("%d grants in %v", n, took)
	}
	if grants := e.rec.Grants(key); grants != n+1 {
		e.t.Errorf("%d grants, want %d", grants, n+1)
	}
	wrong := 0
	for i, name := range queue {
		if i >= len(order) || order[i] != name {
			wrong++
		}
	}
	if wrong > 0 || len(queue) != n {
		e.t.Errorf("%d of %d in the queue were granted out of order", wrong, len(queue))
	}
}

func reentryBeforeLongQueue(e *env) {
	c, other, q := e.client(), e.client(), e.line(e.key("item"))
	ctx, held := e.lock(c, q.key)
	for range 20 {
		q.join(c)
		q.join(other)
	}
	start := time.Now()
	for i := range 30 {
		var wait []lockmw.Option
		if i%2 == 1 {
			wait = append(wait, lockmw.WithWait(0))
		}
		_, inner, err := c.Lock(ctx, q.key, wait...)
		if err != nil {
			e.t.Fatalf("re-entry: %v", err)
		}
		if inner.Token() != held.Token() {
			e.t.Errorf("the nested hold has token %d, the outer one %d", inner.Token(), held.Token())
		}
		if err := inner.Unlock(); err != nil {
			e.t.Errorf("Unlock of the nested hold: %v", err)
		}
	}
	if took := e.pace.since(start); took > e.soon {
		e.t.Errorf("re-entry took %v", took)
	}
	q.stands()
	e.unlock(ctx, held)
	q.run()
}

// tryOften has n calls try again and again, each until it gets the lock, and calls got with which grant
// that was. It returns a function that ends them.
func (e *env) tryOften(clients []*client, key string, n int, got func(nth int)) (quit func()) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for {
				ctx, held, err := e.rec.Lock(e.ctx, clients[i%len(clients)], key, lockmw.WithWait(0))
				if err == nil {
					e.unlock(ctx, held)
					got(held.nth)
					return
				}
				e.is("a try while others wait", err, lockmw.ErrBusy)
				select {
				case <-stop:
					return
				default:
				}
				e.pass(200 * time.Microsecond)
			}
		})
	}
	return sync.OnceFunc(func() {
		close(stop)
		wg.Wait()
	})
}

func triesOvertakeNobody(e *env) {
	const waiters = 20
	clients, q := e.clients(3), e.line(e.key("item"))
	ctx, held := e.lock(clients[0], q.key)
	for i := range waiters {
		q.join(clients[i%2])
	}
	quit := e.tryOften(clients, q.key, 4, func(nth int) {
		if nth < waiters+2 {
			e.t.Errorf("a try was grant %d, before one of %d who waited", nth, waiters)
		}
	})
	defer quit()
	e.pass(2 * time.Millisecond)
	e.unlock(ctx, held)
	for _, s := range q.calls {
		ctx, held := s.gets(e.soon)
		e.pass(500 * time.Microsecond) // the work, during which they try
		e.unlock(ctx, held)
	}
}

func triesAtTheEndOfALease(e *env) {
	a, b, c, q := e.client(), e.client(), e.client(), e.line(e.key("item"))
	ctx, held := e.lock(a, q.key, lockmw.WithFixedLease(minLease))
	s := q.join(b)
	e.pass(minLease - 20*time.Millisecond)
	if a.wire != nil { // it says that the lock is free before the server finds out
		a.wire.Cut()
	}
	quit := e.tryOften([]*client{c}, q.key, 2, func(int) {
		e.t.Error("a try got the lock that somebody waited for")
	})
	defer quit()
	s.gets(minLease + pollInterval + e.soon)
	quit()
	if a.wire != nil {
		a.wire.Restore()
	}
	e.lost(ctx, held)
	s.ends()
}
