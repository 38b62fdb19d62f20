package asynqmw

import (
	"sync"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/kinds"
	"github.com/lockmw/go/internal/middleware"
	"github.com/lockmw/go/internal/parked"
)

// A layout says whether the program's version of asynq stores its tasks in the layout that package parked expects.
type layout struct {
	err    error
	warned sync.Once
}

var linked = &layout{err: parked.CheckLinked()}

// open sets the Redis of the queues: that of WithQueueRedis or of the locks. If there is none, the fields stay nil, and tasks come
// back by the clock, as with the Local of a test.
func (g *guard) open() {
	var locks core.Backend
	if k, ok := kinds.Of(g.locker); ok {
		locks, _ = k.Backend()
	}
	rdb := g.queueRedis
	if rdb == nil {
		rdb = locks.Redis
	}
	switch {
	case rdb == nil:
	case g.layout.err == nil:
		g.queues = &parked.Store{Redis: rdb}
		if locks.Redis != nil && g.parks() {
			g.locks = &locks
		}
	case g.onBusy == Requeue:
		g.layout.warned.Do(func() {
			g.logger().Warn("asynqmw: tasks that meet a busy lock come back after a delay, not when it is free, and WithRescue enqueues copies, because this version of asynq is unknown", "error", g.layout.err)
		})
	}
}

// parkerOf returns the parker and the list for a task whose lock is busy; nil if the task cannot be parked.
func (g *guard) parkerOf(a *attempt, key string) (*parker, parked.ListID) {
	if g.locks == nil || a.server == nil {
		return nil, parked.ListID{}
	}
	p := a.server.parker(*g.locks, *g.queues, g.logger())
	if p.state.isOff() {
		return nil, parked.ListID{}
	}
	p.enter(a.queue)
	return p, parked.ListID{Queue: a.queue, Lock: p.locks.Holder(key)}
}

// park handles a task whose lock is busy. The task waits in its worker if mayStay is set and no other task needs the worker;
// otherwise park parks it. A task that is parked gets an error that puts it back.
func (g *guard) park(p *parker, w parked.ListID, a *attempt, mayStay bool, busy error) outcome {
	stay, leave := time.Duration(0), func() {}
	if mayStay {
		stay, leave = p.stay(w, a)
	}
	defer leave()
	answer := g.ask(p, w, a, stay)
	switch isParked := answer.Action == parked.Park; {
	case !isParked && answer.Action != parked.WaitInWorker:
		return outcome{err: busy}
	case isParked && !p.mayBeFree(a.ctx, w):
		return outcome{err: g.parked(a, answer, busy)}
	case isParked:
		stay = 0
	}
	t := g.lockWithin(a, stay)
	if middleware.IsBusy(t.err) && (answer.Woken || !g.tooOften(a)) {
		t.err = g.parked(a, answer, t.err)
	}
	return t
}

// ask puts a task with a busy lock on its list. If it cannot, the action of the answer is parked.Unknown.
func (g *guard) ask(p *parker, w parked.ListID, a *attempt, stay time.Duration) parked.Answer {
	answer, err := p.park(a.ctx, parked.BusyTask{ListID: w, ID: a.id, Began: a.began, Stay: stay, Last: a.last, OnlyIfWoken: g.tooOften(a)})
	p.note(a.ctx, a.queue, a.id, answer.Action, err)
	return answer
}

// parked returns the error of a task that is parked.
func (g *guard) parked(a *attempt, answer parked.Answer, err error) *busyError {
	requeued := a.requeued
	if !answer.Woken {
		requeued++
	}
	g.requeues.set(a.name(), requeued)
	return &busyError{err: err, due: answer.Due, parked: true}
}

// fifthOf returns wait, or a fifth of the time until the task's deadline if that is less.
func (a *attempt) fifthOf(wait time.Duration) time.Duration {
	if !a.limited {
		return wait
	}
	return min(wait, max(0, time.Until(a.deadline)/5))
}
