package fault

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/locktest/judge"
)

var killedProcesses = []env.Scenario{
	env.Case("that held the lock is succeeded when its lease is over", killedHolder, env.InRealTime|env.OneNode|env.Shares|env.Sample),
	env.Case("that was the next is succeeded when its accept window is over", killedHead, env.InRealTime|env.OneNode|env.Shares),
	env.Case("that was the next is passed over when it has missed a poll", killedHeadMissed, env.InRealTime|env.OneServer|env.Shares),
	env.Case("and twenty that waited keep nobody from his turn", killedWaiters, env.InRealTime|env.OneNode|env.Shares),
}

func killedHolder(e *env.Env) {
	lease := e.Ample(600 * time.Millisecond)
	p, key := e.Process(), e.Key("item")
	held := p.Lock(key, lease)
	held.Gets(env.Patience)
	waiters := waitEach(e, 3, key)
	held.Says(judge.Renewed, env.Patience)
	killed := p.Kill()
	waiters[0].RunsBy(killed.Add(lease + env.PollInterval))
	env.RunInOrder(waiters)
}

// waitEach starts calls of n further processes, one after the other.
func waitEach(e *env.Env, n int, key string) []*env.Waiter {
	e.T.Helper()
	waiters := make([]*env.Waiter, n)
	for i := range waiters {
		waiters[i] = e.Wait(e.Client(), key)
	}
	return waiters
}

// runInAnyOrder lets calls that wait have the lock, which is free after a hold, each within d, and checks that tokens rise.
func runInAnyOrder(e *env.Env, d time.Duration, before *judge.Held, waiters []*env.Waiter) {
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
	e.Pass(env.BeatInterval + env.BeatInterval/2) // the dead one misses a beat, and is not taken for dead yet
	e.Unlock(ctx, held)
	env.RunInOrder(waiters)
	e.Reaped(key)
}

// listening waits until n processes that wait for key have beaten while they were subscribed.
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
		return fmt.Sprintf("%d of %d who wait are subscribed", got, n)
	})
}

// killedWaiters has one of the dead be granted the lock. When its window ends, all have been dead for longer than DeadAfter.
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
	waiters[0].RunsBy(killed.Add(lease + env.AcceptWindow + env.PollInterval))
	env.RunInOrder(waiters)
	e.Reaped(key)
}
