package locktest

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lockmw/go/lockmw"
)

var killedProcesses = []scenario{
	{"that held the lock is succeeded when its lease is over", killedHolder, realTime | shares | sample},
	{"that was the next is succeeded when its accept window is over", killedHead, realTime | shares},
	{"that was the next is passed over when it has missed a poll", killedHeadMissed, realTime | shares},
	{"and twenty that waited keep nobody from his turn", killedWaiters, realTime | shares},
}

func killedHolder(e *env) {
	const lease = 900 * time.Millisecond
	p, key := e.process(), e.key("item")
	held := p.lock(key, lease)
	held.gets(patience)
	waiters := e.waitEach(3, key)
	held.says(renewed, patience)
	killed := p.kill()
	e.runsBy(waiters[0], killed.Add(lease+pollInterval))
	e.runInOrder(waiters)
}

// waitEach starts calls of n further processes, one after the other.
func (e *env) waitEach(n int, key string) []*waiter {
	e.t.Helper()
	waiters := make([]*waiter, n)
	for i := range waiters {
		waiters[i] = e.wait(e.client(), key)
	}
	return waiters
}

// runsBy checks that a waiting call gets the lock until then, or soon after.
func (e *env) runsBy(w *waiter, then time.Time) {
	e.t.Helper()
	w.gets(time.Until(then) + e.soon)
}

// runInOrder lets calls that wait have the lock one after the other, and checks that the others wait.
func (e *env) runInOrder(waiters []*waiter) {
	e.t.Helper()
	for i, w := range waiters {
		w.gets(e.soon)
		for _, other := range waiters[i+1:] {
			other.isWaiting()
		}
		e.unlock(w.ctx, w.held)
	}
}

func killedHead(e *env) {
	p, key := e.process(), e.key("item")
	ctx, held := e.lock(e.client(), key)
	p.wait(key)
	waiters := e.waitEach(3, key)
	p.kill()
	e.unlock(ctx, held)
	e.runsBy(waiters[0], time.Now().Add(acceptWindow+pollInterval))
	e.runInOrder(waiters)
}

func killedHeadMissed(e *env) {
	p, key := e.process(), e.key("item")
	ctx, held := e.lock(e.client(), key)
	p.wait(key)
	waiters := e.waitEach(3, key)
	e.listening(key, 4)
	p.kill()
	e.pass(pollInterval + pollInterval/4) // the dead one misses a poll, and is not taken for dead yet
	e.unlock(ctx, held)
	e.runInOrder(waiters)
	e.reaped(key)
}

// listening waits until n processes in key's queue have polled while they were subscribed.
func (e *env) listening(key string, n int) {
	e.t.Helper()
	e.eventually(patience, func() string {
		got := 0
		for field, value := range e.admin.HGetAll(e.ctx, e.redisKey(key)+":tickets").Val() {
			if strings.HasPrefix(field, "@") && strings.HasPrefix(value, "+") {
				got++
			}
		}
		if got == n {
			return ""
		}
		return fmt.Sprintf("%d of %d who wait are subscribed", got, n)
	})
}

// reaped checks that tickets of the dead go when somebody takes the lock.
func (e *env) reaped(key string) {
	e.t.Helper()
	c := e.client()
	e.eventually(acceptWindow+4*pollInterval, func() string {
		ctx, held, err := e.rec.Lock(e.ctx, c, key, lockmw.WithWait(e.soon))
		if err != nil {
			return err.Error()
		}
		e.unlock(ctx, held)
		if e.admin.Exists(e.ctx, e.redisKey(key)+":queue").Val() == 1 {
			return "tickets of the dead are left"
		}
		return ""
	})
}

func killedWaiters(e *env) {
	const lease = acceptWindow
	key := e.key("item")
	processes := e.processes(22)
	processes[0].lock(key, lease).gets(patience)
	var waiters []*waiter
	for i, p := range processes[1:] {
		p.wait(key)
		if i%7 == 3 {
			waiters = append(waiters, e.waitEach(1, key)...)
		}
	}
	var wg sync.WaitGroup
	for _, p := range processes {
		wg.Go(func() { p.kill() })
	}
	wg.Wait()
	killed := time.Now()
	e.runsBy(waiters[0], killed.Add(lease+pollInterval))
	e.runInOrder(waiters)
	e.reaped(key)
}
