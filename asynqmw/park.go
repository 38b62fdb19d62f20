package asynqmw

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/kinds"
	"github.com/lockmw/go/lockmw"
)

// A lot is where a guard parks tasks, if it does.
type lot struct {
	locks  core.Backend
	queues redis.UniversalClient
}

// newLot returns nil if tasks are not parked.
func newLot(c *config, l lockmw.Locker) *lot {
	locks, ok := backendOf(l)
	if !ok || !c.parks() {
		return nil
	}
	return &lot{locks, queuesOf(c, l)}
}

// queuesOf returns the Redis of asynq's queues, as far as it is known; otherwise nil.
func queuesOf(c *config, l lockmw.Locker) redis.UniversalClient {
	if c.queueRedis != nil {
		return c.queueRedis
	}
	if locks, ok := backendOf(l); ok {
		return locks.Redis
	}
	return nil
}

// backendOf returns where the locks are. Locks within the process are for tests.
func backendOf(l lockmw.Locker) (core.Backend, bool) {
	if k, ok := kinds.Of(l); ok {
		return k.Backend()
	}
	return core.Backend{}, false
}

// parkingOf returns where a task is parked if its lock is busy, and in which crowd; nil: nowhere.
func (g *guard) parkingOf(a *attempt, key string) (*parking, crowdID) {
	if g.lot == nil || a.server == nil {
		return nil, crowdID{}
	}
	p := a.server.parking(g.lot.locks, g.lot.queues)
	if p.state.isOff() {
		return nil, crowdID{}
	}
	p.enter(a.queue)
	return p, crowdID{a.queue, p.locks.Holder(key)}
}

// park has a task whose lock is busy wait for it in its worker, if no other task needs that; otherwise it parks the
// task. It returns what lock returns. A task that was parked has an error that puts it back.
func (g *guard) park(p *parking, id crowdID, a *attempt, key string, busy error) (context.Context, *lockmw.Hold, func(), error) {
	c := parkCall{crowdID: id, id: a.id, nonce: newNonce(), last: a.last, ifCalled: g.tooOften(a)}
	leave := func() {}
	if !g.waits { // WithWait has let it wait already
		c.stay, leave = p.stay(id)
		c.stay = a.fifthOf(c.stay)
	}
	answer, err := g.ask(p, a, c)
	for tries := 0; err == nil && answer.what == letOlderGo && a.ctx.Err() == nil; tries++ {
		time.Sleep(time.Millisecond)
		c.hurried = tries == maxTries
		answer, err = g.ask(p, a, c)
	}
	if err == nil && answer.what == waitInWorker {
		ctx, hold, release, failed := g.lock(a, key, false, lockmw.WithWait(c.stay))
		leave()
		if !isBusy(failed) {
			return ctx, hold, release, failed
		}
		release()
		c.stay, busy = 0, failed
		answer, err = g.ask(p, a, c)
	} else {
		leave()
	}
	if err != nil || answer.what != parkTask {
		return nil, nil, func() {}, busy
	}
	// The lock may have been released before the task was on the list.
	ctx, hold, release, err := g.lock(a, key, false, lockmw.WithWait(0))
	if !isBusy(err) {
		return ctx, hold, release, err
	}
	return ctx, hold, release, g.parked(p, a, c, answer, err)
}

// ask asks what becomes of a task with a busy lock.
func (g *guard) ask(p *parking, a *attempt, c parkCall) (parkAnswer, error) {
	c.waited = time.Since(a.began)
	answer, err := p.ask(a.ctx, c)
	if why := p.state.note(answer.what, err); why != nil {
		g.logger().WarnContext(a.ctx, "asynqmw: tasks that meet a busy lock come back after a delay, not when it is free, as they cannot be parked", "queue", a.queue, "task", a.id, "error", why)
	}
	return answer, err
}

// parked returns the error of a task that is parked.
func (g *guard) parked(p *parking, a *attempt, c parkCall, answer parkAnswer, err error) *busyError {
	requeued := a.requeued
	if !answer.called {
		requeued++
	}
	g.requeues.set(a.name(), requeued)
	return &busyError{err: err, delay: p.away(c.crowdID, answer.rank), nonce: c.nonce, parked: true}
}

// newNonce returns letters by which asynq's record of an attempt that was put back is known.
func newNonce() string { return rand.Text()[:10] }

// fifthOf returns wait, or a fifth of what is left of the task's time if that is less.
func (a *attempt) fifthOf(wait time.Duration) time.Duration {
	if !a.limited {
		return wait
	}
	return min(wait, max(0, time.Until(a.deadline)/5))
}
