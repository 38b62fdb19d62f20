package fair

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/lockmw"
)

var orders = []env.Scenario{
	env.Case("calls run in the order of their arrival", strictOrder, env.Fair|env.Shares|env.Sample),
	env.Case("calls of several processes run in the order of their arrival", orderOverProcesses, env.Fair|env.InRealTime|env.Shares|env.Sample),
	env.Case("5000 calls one after the other run in order", manyInOrder, env.Fair|env.InProcess),
	env.Case("5000 concurrent calls run in queue order", manyAtOnce, env.Fair|env.OnServer|env.Shares|env.Costly),
	env.Case("TryLock does not overtake waiters", triesOvertakeNobody, env.Fair|env.Shares),
	env.Case("TryLock does not overtake waiters at the end of a lease", triesAtTheEndOfALease, env.Fair|env.Shares),
	env.Case("calls keep their order while the server is stopped for longer than their leases", orderOverAStop, env.Fair|env.InRealTime|env.Alone),
}

func strictOrder(e *env.Env) {
	clients, q := e.Clients(3), newLine(e, e.Key("item"))
	ctx, held := e.Lock(clients[0], q.key)
	for range 15 {
		q.join(clients[rand.IntN(len(clients))])
	}
	e.Unlock(ctx, held)
	q.run()
	if n := e.Rec.Grants(q.key); n != 16 {
		e.T.Errorf("%d grants, want 16", n)
	}
}

func orderOverProcesses(e *env.Env) {
	c, other, q := e.Client(), e.Client(), newLine(e, e.Key("item"))
	processes := []*env.Process{queuer(e), queuer(e), queuer(e)}
	ctx, held := e.Lock(c, q.key)
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
	e.Unlock(ctx, held)
	q.run()
}

// orderOverAStop makes grants arrive late, because their answers are under way when the server stops.
func orderOverAStop(e *env.Env) {
	const fixed = 8 * time.Second // time for all calls to queue
	lease := e.Ample(600 * time.Millisecond)
	clients, lines := e.Clients(5), make([]*line, 8)
	var leases []func()       // checks that the leases have ended
	var first, last time.Time // the first and the last deadline
	for i := range lines {
		q := newLine(e, e.Key("item"))
		lines[i] = q
		ctx, held := e.Lock(clients[0], q.key, lockmw.WithFixedLease(fixed))
		if last = held.Deadline(); i == 0 {
			first = last
		}
		leases = append(leases, func() { e.Lost(ctx, held) })
		for _, c := range clients {
			q.join(c, lockmw.WithLease(lease))
		}
	}
	e.Pass(time.Until(first) - 2*env.PollInterval)
	e.Server.Pause(e.TB)
	e.Pass(time.Until(last) + lease + 2*env.PollInterval)
	e.Server.Resume(e.TB)
	for i, q := range lines {
		leases[i]()
		for len(q.calls) > 0 {
			q.calls[0].Gets(env.Patience) // if the grant's message is lost, a poll finds the grant
			q.finishFirst()
		}
	}
}

// many returns the number of calls for load scenarios.
func many(e *env.Env) int {
	switch {
	case race.Enabled:
		return 300
	case e.Server != nil && e.Server.Mini != nil: // it sorts its queue at each access
		return 1000
	}
	return 5000
}

func manyInOrder(e *env.Env) {
	key := e.Key("item")
	ctx, held := e.Lock(e.Local, key)
	waiters := make([]*env.Waiter, many(e))
	for i := range waiters {
		waiters[i] = e.Wait(e.Local, key)
	}
	e.Unlock(ctx, held)
	for i, w := range waiters {
		ctx, held := w.Gets(e.Soon)
		if held.Nth != i+2 {
			e.T.Fatalf("call %d received grant %d", i+2, held.Nth)
		}
		e.Unlock(ctx, held)
	}
}

func manyAtOnce(e *env.Env) {
	clients, key := e.Clients(6), e.Key("item")
	ctx, held := e.Lock(clients[0], key)
	n := many(e)
	q := newLine(e, key)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var order []string // of the grants
	for i := range n {
		s := &standing{name: q.newName()}
		wg.Go(func() {
			ctx, held, err := e.Rec.Lock(e.Ctx, clients[i%len(clients)], key, s.observer())
			if err != nil {
				e.T.Errorf("Lock: %v", err)
				return
			}
			mu.Lock()
			order = append(order, s.name)
			mu.Unlock()
			e.Unlock(ctx, held)
		})
	}
	e.Server.TicketsQueued(key, int64(n))
	queue := queue(e, key)
	start := time.Now()
	e.Unlock(ctx, held)
	wg.Wait()
	took := time.Since(start)
	if !e.Config.Bubble {
		e.TB.Logf("%d grants in %v", n, took)
	}
	if grants := e.Rec.Grants(key); grants != n+1 {
		e.T.Errorf("%d grants, want %d", grants, n+1)
	}
	wrong := 0
	for i, name := range queue {
		if i >= len(order) || order[i] != name {
			wrong++
		}
	}
	if wrong > 0 || len(queue) != n {
		e.T.Errorf("%d of %d queued calls were granted out of order", wrong, len(queue))
	}
}

// tryOften makes n calls retry TryLock until they get the lock. It calls got with the number of each grant. quit stops them.
func tryOften(e *env.Env, clients []*env.Client, key string, n int, got func(nth int)) (quit func()) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for {
				ctx, held, err := e.Rec.Lock(e.Ctx, clients[i%len(clients)], key, lockmw.WithWait(0))
				if err == nil {
					e.Unlock(ctx, held)
					got(held.Nth)
					return
				}
				e.Is("TryLock while others wait", err, lockmw.ErrBusy)
				select {
				case <-stop:
					return
				default:
				}
				e.Pass(200 * time.Microsecond)
			}
		})
	}
	return sync.OnceFunc(func() {
		close(stop)
		wg.Wait()
	})
}

func triesOvertakeNobody(e *env.Env) {
	const waiters = 20
	clients, q := e.Clients(3), newLine(e, e.Key("item"))
	ctx, held := e.Lock(clients[0], q.key)
	for i := range waiters {
		q.join(clients[i%2])
	}
	quit := tryOften(e, clients, q.key, 4, func(nth int) {
		if nth < waiters+2 {
			e.T.Errorf("TryLock received grant %d, before one of %d waiters", nth, waiters)
		}
	})
	defer quit()
	e.Pass(2 * time.Millisecond)
	e.Unlock(ctx, held)
	for _, s := range q.calls {
		ctx, held := s.Gets(e.Soon)
		e.Pass(500 * time.Microsecond) // work, while others call TryLock
		e.Unlock(ctx, held)
	}
}

func triesAtTheEndOfALease(e *env.Env) {
	lease := e.Ample(600 * time.Millisecond)
	a, b, c, q := e.Client(), e.Client(), e.Client(), newLine(e, e.Key("item"))
	ctx, held := e.Lock(a, q.key, lockmw.WithFixedLease(lease))
	s := q.join(b)
	e.Pass(time.Until(held.Deadline()) - 15*time.Millisecond)
	if a.Wire != nil { // it would report the lock as free before the server notices
		a.Wire.Cut()
	}
	quit := tryOften(e, []*env.Client{c}, q.key, 2, func(int) {
		e.T.Error("TryLock took the lock before a waiter")
	})
	defer quit()
	s.Gets(lease + env.PollInterval + e.Soon)
	quit()
	if a.Wire != nil {
		a.Wire.Restore()
	}
	e.Lost(ctx, held)
	s.ends()
}
