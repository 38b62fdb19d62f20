package locktest

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

var firstCome = slices.Concat(fairOrders, fairLeaving, fairClocks, fairDriven, fairPositions, fairTickets, fairTicketInput, fairModelled)

var fairOrders = []scenario{
	{"calls run in the order in which they came", strictOrder, fair},
	{"calls of several processes run in the order in which they came", orderOverProcesses, fair | realTime},
	{"5000 that came one after the other run in that order", manyInOrder, fair | inProc},
	{"5000 that came at once run in the order of the queue", manyAtOnce, fair | server},
	{"re-entry jumps no queue and waits in none", reentryBeforeLongQueue, fair},
	{"a try overtakes nobody who waits", triesOvertakeNobody, fair},
	{"a try does not overtake those who wait for the end of a lease", triesAtTheEndOfALease, fair},
	{"fair, plain and write locks of one key stand in one queue", kindsInOneQueue, fair | server},
	{"fair, plain and write locks of one key exclude each other", kindsExclude, fair | server},
	{"an acquisition costs at most three commands with 1000 who wait, polls included", fewCommands, fair | server},
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
	case underRace:
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
	if took := time.Since(start); took > e.soon {
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
	s.gets(minLease + e.soon)
	quit()
	if a.wire != nil {
		a.wire.Restore()
	}
	e.lost(ctx, held)
	s.ends()
}

func kindsInOneQueue(e *env) {
	a, b, q := e.client(), e.client(), e.line(e.key("item"))
	writes := func(c *client) lockmw.Locker { return rwlock.New(c.redis) }
	ctx, held := e.lock(a.redis, q.key)
	q.join(b)
	q.join(b.redis)
	q.join(writes(a))
	q.join(a)
	q.join(writes(b))
	want := []string{"fair", "exclusive", "write", "fair", "write"}
	var got []string
	for _, w := range e.inspect(q.key).Waiters {
		got = append(got, w.Mode)
	}
	if !slices.Equal(got, want) {
		e.t.Errorf("the modes in the queue are %q, want %q", got, want)
	}
	e.busy(a, q.key)
	e.busy(b.redis, q.key)
	e.unlock(ctx, held)
	q.run()
}

// inspect returns what the server has of a key.
func (e *env) inspect(key string) lockmw.Status {
	e.t.Helper()
	inspector, err := lockmw.NewInspector(e.admin, lockmw.WithPrefix(e.prefix))
	if err != nil {
		e.t.Fatal(err)
	}
	status, err := inspector.Get(e.ctx, key)
	if err != nil {
		e.t.Fatalf("inspecting: %v", err)
	}
	return status
}

func kindsExclude(e *env) {
	const contenders, rounds = 24, 10
	clients, key := e.clients(3), e.key("item")
	var wg sync.WaitGroup
	for i := range contenders {
		c := clients[i%len(clients)]
		l := []lockmw.Locker{c, c.redis, rwlock.New(c.redis)}[i/len(clients)%3]
		wg.Go(func() {
			for range rounds {
				ctx, held, err := e.rec.Lock(e.ctx, l, key)
				if err != nil {
					e.t.Errorf("Lock: %v", err)
					return
				}
				e.pass(50 * time.Microsecond)
				e.unlock(ctx, held)
			}
		})
	}
	wg.Wait()
	if n := e.rec.Grants(key); n != contenders*rounds {
		e.t.Errorf("%d grants, want %d", n, contenders*rounds)
	}
}

func fewCommands(e *env) {
	const most = 3
	clients, key := e.clients(4), e.key("item")
	work := time.Millisecond // so long that polls are due
	if e.cfg.Bubble {
		work *= 4
	}
	for _, c := range clients {
		e.warm(c)
	}
	ctx, held := e.lock(clients[0], key)
	for _, c := range clients {
		c.wire.Record()
	}
	var wg sync.WaitGroup
	n := min(1000, e.many())
	for i := range n {
		wg.Go(func() {
			ctx, held, err := e.rec.Lock(e.ctx, clients[i%len(clients)], key)
			if err != nil {
				e.t.Errorf("Lock: %v", err)
				return
			}
			e.pass(work)
			e.unlock(ctx, held)
		})
	}
	e.ticketsQueued(key, int64(n))
	start := time.Now()
	e.unlock(ctx, held)
	wg.Wait()
	took := time.Since(start)
	sent := make(map[string]int)
	total := 0
	for _, c := range clients {
		for _, command := range c.wire.Sent() {
			if slices.Contains([]string{"hello", "client"}, command[0]) {
				continue // the beginning of a connection
			}
			sent[command[0]]++
			total++
		}
	}
	e.tb.Logf("%d commands for %d acquisitions within %v: %v", total, n, took, sent)
	if total > most*n {
		e.t.Errorf("%d commands for %d acquisitions: %v", total, n, sent)
	}
}
