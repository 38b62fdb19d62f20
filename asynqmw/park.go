package asynqmw

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/lockmw"
)

// A lot is where a guard parks tasks, if it does.
type lot struct {
	locks  core.Backend
	queues redis.UniversalClient
}

// newLot returns nil if tasks are not parked. Locks within the process are for tests.
func newLot(c *config, l lockmw.Locker) *lot {
	if !c.parks() {
		return nil
	}
	b, ok := l.(interface{ Backend() (core.Backend, bool) })
	if !ok {
		return nil
	}
	locks, ok := b.Backend()
	if !ok {
		return nil
	}
	queues := c.queueRedis
	if queues == nil {
		queues = locks.Redis
	}
	return &lot{locks, queues}
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

// park has a task whose lock is busy wait for it in its worker, if no other task needs that; else it parks the task.
// The results are those of lock. A task that was parked has an error that puts it back.
func (g *guard) park(p *parking, id crowdID, a *attempt, key string, busy error) (context.Context, *lockmw.Hold, func(), error) {
	c := parkCall{crowdID: id, id: a.id, nonce: rand.Text()[:10], state: "active"}
	switch {
	case a.last:
		c.when = parkNever
	case g.tooOften(a):
		c.when = parkIfCalled
	}
	wait, leave := time.Duration(0), func() {}
	if !g.waits { // WithWait has let it wait already
		wait, leave, c.mayWait = p.stay(id)
	}
	answer, err := p.ask(a.ctx, c)
	if c.mayWait && (err != nil || answer.what != waitInWorker) {
		leave()
	}
	if err == nil && answer.what == waitInWorker {
		ctx, hold, release, failed := g.lock(a, key, false, lockmw.WithWait(a.fifthOf(wait)))
		leave()
		if !isBusy(failed) {
			return ctx, hold, release, failed
		}
		release()
		c.mayWait, busy = false, failed
		answer, err = p.ask(a.ctx, c)
	}
	if why := p.state.note(answer.what, err); why != nil {
		g.logger().WarnContext(a.ctx, "asynqmw: tasks that meet a busy lock come back after a delay, not when it is free, as they cannot be parked", "queue", a.queue, "task", a.id, "error", why)
	}
	if err != nil || answer.what != parkTask {
		return nil, nil, func() {}, busy
	}
	// The lock may have been released before the task was on the list.
	ctx, hold, release, err := g.lock(a, key, false, lockmw.WithWait(0))
	if !isBusy(err) {
		return ctx, hold, release, err
	}
	requeued := a.requeued
	if !answer.called {
		requeued++
	}
	g.requeues.set(a.name(), requeued)
	return ctx, hold, release, &busyError{err: err, delay: p.away(id, answer.rank), nonce: c.nonce}
}

// fifthOf returns wait, or a fifth of what is left of the task's time if that is less.
func (a *attempt) fifthOf(wait time.Duration) time.Duration {
	if !a.limited {
		return wait
	}
	return min(wait, max(0, time.Until(a.deadline)/5))
}
