package locktest

import (
	"sync"
	"time"

	"github.com/lockmw/go/lockmw"
)

var fairness = []scenario{
	{"goroutines of one process run in the order in which they asked", orderWithinProcess, shares | sample},
	{"without local passes the processes run in the order in which they asked", orderOfProcesses, server | shares | sample},
	{"another process waits for a bounded number of passes", boundedPasses, server | passesOn | shares},
	{"another process waits for a third of the lease at most", boundedTime, server | passesOn | shares},
}

func orderWithinProcess(e *env) {
	c, key := e.client(), e.key("item")
	ctx, held := e.lock(c, key)
	waiters := make([]*waiter, 20)
	for i := range waiters {
		waiters[i] = e.wait(c, key)
	}
	e.unlock(ctx, held)
	for i, w := range waiters {
		e.unlock(w.gets(e.soon))
		if w.held.nth != i+2 {
			e.t.Errorf("call %d was grant %d", i+2, w.held.nth)
		}
	}
}

func orderOfProcesses(e *env) {
	key := e.key("item")
	ctx, held := e.lock(e.client(lockmw.WithLocalPasses(0)), key)
	waiters := make([]*waiter, 6)
	for i := range waiters {
		waiters[i] = e.wait(e.client(lockmw.WithLocalPasses(0)), key)
	}
	e.unlock(ctx, held)
	for i, w := range waiters {
		e.unlock(w.gets(e.soon))
		if w.held.nth != i+2 {
			e.t.Errorf("call %d was grant %d", i+2, w.held.nth)
		}
	}
}

// crowd lets n goroutines take key from l over and over, until the returned function is called.
func (e *env) crowd(l lockmw.Locker, key string, n int, work time.Duration, opts ...lockmw.Option) (stop func()) {
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range n {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				ctx, held, err := e.rec.Lock(e.ctx, l, key, opts...)
				if err != nil {
					e.t.Errorf("Lock: %v", err)
					return
				}
				time.Sleep(work) // what is done under the lock
				e.unlock(ctx, held)
			}
		})
	}
	return func() {
		close(done)
		wg.Wait()
	}
}

func boundedPasses(e *env) {
	a, b, key := e.client(), e.client(), e.key("item")
	defer e.crowd(a, key, 63, time.Millisecond)()
	most := localPasses + 2 // the hold that runs, and one that begins while the hint is on its way
	if !e.cfg.Bubble {
		most += 8 // it is on its way for longer
	}
	for range 10 {
		enough := e.rec.Grants(key) + 150 // so that the licence has grown without contention
		e.eventually(patience, func() string {
			if e.rec.Grants(key) >= enough {
				return ""
			}
			return "the crowd does not get on"
		})
		w := e.wait(b, key)
		before := e.rec.Grants(key)
		ctx, held := w.gets(patience)
		if passes := held.nth - 1 - before; passes > most {
			e.t.Errorf("the other process waited for %d holds, more than %d", passes, most)
		}
		e.unlock(ctx, held)
	}
}

func boundedTime(e *env) {
	const lease, work = 3 * time.Second, 100 * time.Millisecond
	a, b, key := e.client(), e.client(), e.key("item")
	defer e.crowd(a, key, 12, work, lockmw.WithLease(lease))()
	e.eventually(patience, func() string {
		if e.rec.Grants(key) >= 3 {
			return ""
		}
		return "the crowd does not get on"
	})
	start := time.Now()
	w := e.wait(b, key, lockmw.WithLease(lease))
	e.unlock(w.gets(patience))
	if took := e.pace.between(start, w.at); took > lease/3+2*work+e.soon {
		e.t.Errorf("the other process waited for %v, more than a third of the lease", took)
	}
}
