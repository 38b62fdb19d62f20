package plain

import (
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

var fairness = []env.Scenario{
	env.Case("goroutines of one process run in the order of their calls", orderWithinProcess, env.Shares|env.Sample),
	env.Case("without local passes, processes run in the order of their calls", orderOfProcesses, env.OnServer|env.OneNode|env.Shares|env.Sample),
	env.Case("another process waits for a bounded number of passes", boundedPasses, env.OnServer|env.OneServer|env.PassesOn|env.Shares),
	env.Case("another process waits for at most a third of the lease", boundedTime, env.OnServer|env.PassesOn|env.Shares),
}

func orderWithinProcess(e *env.Env) {
	c, key := e.Client(), e.Key("item")
	ctx, held := e.Lock(c, key)
	waiters := make([]*env.Waiter, 20)
	for i := range waiters {
		waiters[i] = e.Wait(c, key)
	}
	e.Unlock(ctx, held)
	for i, w := range waiters {
		e.Unlock(w.Gets(e.Soon))
		if w.Held.Nth != i+2 {
			e.T.Errorf("call %d received grant %d", i+2, w.Held.Nth)
		}
	}
}

func orderOfProcesses(e *env.Env) {
	key := e.Key("item")
	ctx, held := e.Lock(e.Client(lockmw.WithLocalPasses(0)), key)
	waiters := make([]*env.Waiter, 6)
	for i := range waiters {
		waiters[i] = e.Wait(e.Client(lockmw.WithLocalPasses(0)), key)
	}
	e.Unlock(ctx, held)
	for i, w := range waiters {
		e.Unlock(w.Gets(e.Soon))
		if w.Held.Nth != i+2 {
			e.T.Errorf("call %d received grant %d", i+2, w.Held.Nth)
		}
	}
}

func boundedPasses(e *env.Env) {
	a, b, key := e.Client(), e.Client(), e.Key("item")
	defer e.Crowd(a, key, 63, time.Millisecond)()
	most := env.LocalPasses + 2 // the current hold, and one more while the hint is under way
	if !e.Config.Bubble {
		most += 8 // in real time the hint takes longer
	}
	for range 10 {
		enough := e.Rec.Grants(key) + 150 // lets the number of passes grow without contention
		e.Eventually(env.Patience, func() string {
			if e.Rec.Grants(key) >= enough {
				return ""
			}
			return "the crowd makes no progress"
		})
		w := e.Wait(b, key)
		before := e.Rec.Grants(key)
		ctx, held := w.Gets(env.Patience)
		if passes := held.Nth - 1 - before; passes > most {
			e.T.Errorf("the other process waited for %d holds, more than %d", passes, most)
		}
		e.Unlock(ctx, held)
	}
}

func boundedTime(e *env.Env) {
	const lease, work = 3 * time.Second, 100 * time.Millisecond
	a, b, key := e.Client(), e.Client(), e.Key("item")
	defer e.Crowd(a, key, 12, work, lockmw.WithLease(lease))()
	e.Eventually(env.Patience, func() string {
		if e.Rec.Grants(key) >= 3 {
			return ""
		}
		return "the crowd makes no progress"
	})
	start := time.Now()
	w := e.Wait(b, key, lockmw.WithLease(lease))
	e.Unlock(w.Gets(env.Patience))
	if took := e.Pace.Between(start, w.At); took > lease/3+2*work+e.Soon {
		e.T.Errorf("the other process waited for %v, more than a third of the lease", took)
	}
}
