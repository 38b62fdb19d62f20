package fault

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/recording"
)

var killedProcesses = []env.Scenario{
	env.Case("a holder is succeeded when its lease expires", killedHolder, env.InRealTime|env.OneNode|env.Shares|env.Sample),
	env.Case("the next in line is succeeded when its accept window ends", killedHead, env.InRealTime|env.OneNode|env.Shares),
	env.Case("the next in line is skipped once it has missed a beat", killedHeadMissed, env.InRealTime|env.OneServer|env.Shares),
	env.Case("twenty killed waiters do not stop the others", killedWaiters, env.InRealTime|env.OneNode|env.Shares),
}

func killedHolder(e *env.Env) {
	lease := e.Ample(600 * time.Millisecond)
	p, key := e.Process(), e.Key("item")
	held := p.Lock(key, lease)
	held.Gets(env.Patience)
	waiters := waitEach(e, 3, key)
	held.Await(judge.Renewed, env.Patience)
	killed := p.Kill()
	waiters[0].RunsBy(killed.Add(lease + env.PollInterval))
	env.RunInOrder(waiters)
}

// waitEach queues one call in each of n new processes, in order.
func waitEach(e *env.Env, n int, key string) []*env.Waiter {
	e.T.Helper()
	waiters := make([]*env.Waiter, n)
	for i := range waiters {
		waiters[i] = e.Wait(e.Client(), key)
	}
	return waiters
}

// runInAnyOrder lets waiting calls take the lock one by one in any order, each within d, and checks that tokens rise.
func runInAnyOrder(e *env.Env, d time.Duration, before *recording.Held, waiters []*env.Waiter) {
	e.T.Helper()
	for token, left := before.Token(), waiters; len(left) > 0; {
		w := env.First(d, left)
		_, next := w.Gets(0)
		if next.Token() <= token {
			e.T.Errorf("token %d after %d", next.Token(), token)
		}
		token = next.Token()
		e.Unlock(w.Ctx, next)
		left = env.Without(left, w)
	}
}

func killedHead(e *env.Env) {
	p, key := e.Process(), e.Key("item")
	ctx, held := e.Lock(e.Client(), key)
	p.Wait(key)
	waiters := waitEach(e, 3, key)
	p.Kill()
	e.Unlock(ctx, held)
	waiters[0].RunsBy(time.Now().Add(env.AcceptWindow + env.PollInterval))
	env.RunInOrder(waiters)
}

func killedHeadMissed(e *env.Env) {
	p, key := e.Process(), e.Key("item")
	ctx, held := e.Lock(e.Client(), key)
	p.Wait(key)
	waiters := waitEach(e, 3, key)
	listening(e, key, 4)
	p.Kill()
	e.Pass(env.BeatInterval + env.BeatInterval/2) // the killed process misses a beat but is not yet considered dead
	e.Unlock(ctx, held)
	env.RunInOrder(waiters)
	e.Reaped(key)
}

// listening waits until n processes that wait for key have beaten while subscribed.
func listening(e *env.Env, key string, n int) {
	e.T.Helper()
	e.Eventually(env.Patience, func() string {
		got := 0
		for _, seen := range e.Server.Alive(key) {
			if strings.HasPrefix(seen, "+") {
				got++
			}
		}
		if got == n {
			return ""
		}
		return fmt.Sprintf("%d of %d waiters are subscribed", got, n)
	})
}

// killedWaiters grants the lock to one of the killed processes. When its accept window ends, all of them have been dead for
// longer than DeadAfter.
func killedWaiters(e *env.Env) {
	lease := e.Ample(2 * time.Second)
	key := e.Key("item")
	processes := e.Processes(22)
	processes[0].Lock(key, lease).Gets(env.Patience)
	var waiters []*env.Waiter
	for i, p := range processes[1:] {
		p.Wait(key)
		if i%7 == 3 {
			waiters = append(waiters, waitEach(e, 1, key)...)
		}
	}
	var wg sync.WaitGroup
	for _, p := range processes {
		wg.Go(func() { p.Kill() })
	}
	wg.Wait()
	killed := time.Now()
	waiters[0].RunsPastDead(key, killed.Add(lease), env.AcceptWindow+env.PollInterval)
	env.RunInOrder(waiters)
	e.Reaped(key)
}
