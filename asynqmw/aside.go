package asynqmw

import (
	"context"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/internal/loglimit"
	"github.com/lockmw/go/internal/parked"
)

// asynq archives a task that does not succeed on its last attempt. One whose lock was busy is set aside: asynq archives it,
// and it is put back to be retried. So the task keeps its ID, what asynq.Unique keeps for it, and whatever else it was
// enqueued with.

// mustWait reports whether the attempt waits until shortly before the task's deadline, as its end costs the task a
// retry, or the task itself. On a server with Configure at most half of the workers do. Call leave after the wait.
func (g *guard) mustWait(a *attempt) (waits bool, leave func()) {
	switch {
	case !a.onServer || g.onBusy != Requeue || a.last && g.rescue != nil:
	case a.server == nil:
		return true, func() {}
	case a.last && a.server.workers > 1 && a.server.beginWait():
		return true, a.server.endWait
	}
	return false, func() {}
}

// save keeps a task on its last attempt, whose lock is busy or whose Client is closed, from being archived: it is set
// aside, or WithRescue enqueues a copy of it, or it waits. It returns what lock returns.
func (g *guard) save(a *attempt, task *asynq.Task, p *parker, w parked.Want, key string, busy error) taken {
	if g.rescue == nil && isClosed(busy) || g.rescue != nil && isBusy(busy) && g.tooOften(a) {
		return taken{err: busy}
	}
	if aside := g.setAside(p, w, a, busy); aside != nil {
		return taken{err: aside}
	}
	if g.rescue == nil {
		return g.lock(a, key, true)
	}
	copyID, failed := g.rescue.copyOf(a, task, g.backOff(a.requeued))
	if failed == nil {
		g.copies.Do(func() {
			g.logger().WarnContext(a.ctx, "asynqmw: WithRescue enqueues copies, which are not unique and have IDs of their own, as the Redis of the queues is not known: see WithQueueRedis", "type", task.Type(), "queue", a.queue)
		})
		return taken{err: &busyError{err: busy, copy: copyID}}
	}
	if missed, ok := g.unsaved.Allow(loglimit.KindOf(failed)); ok {
		g.logger().WarnContext(a.ctx, "asynqmw: a task on its last attempt waits for its lock, as WithRescue could not enqueue a copy", "type", task.Type(), "task", a.origin, "error", failed, "suppressed", missed)
	}
	t := g.lock(a, key, true)
	if t.err != nil {
		t.err = fmt.Errorf("%w (%w)", t.err, failed)
	}
	return t
}

// setAside returns the error that sets a task on its last attempt aside; nil if that is not possible.
func (g *guard) setAside(p *parker, w parked.Want, a *attempt, err error) *busyError {
	if g.tooOften(a) && !isClosed(err) {
		return nil
	}
	if p != nil && isClosed(err) { // so that another process wakes it
		if answer, failed := g.ask(p, w, a, 0); failed == nil && answer.What == parked.Park {
			return g.parked(a, answer, err)
		}
	}
	if g.stateOf(a, a.id) != parked.Active {
		return nil
	}
	busy := g.putBack(a, err)
	busy.aside = true
	return busy
}

// stateOf returns the state of a task of the same queue; "" if there is none, or the queue cannot be seen.
func (g *guard) stateOf(a *attempt, id string) string {
	if g.queues == nil {
		return ""
	}
	state, _ := g.queues.State(a.ctx, a.queue, id)
	return state
}

// restoreFor is how long asynq is given to archive a task that was set aside.
const restoreFor = 10 * time.Second

// restoreLater puts a task back that was set aside, when asynq has archived it: then it ends the context.
func (g *guard) restoreLater(a *attempt, busy *busyError) {
	due := time.Now().Add(busy.away())
	go func() {
		select {
		case <-a.ctx.Done():
		case <-time.After(time.Second): // a middleware may hide the end
		}
		end, pause := time.Now().Add(restoreFor), time.Millisecond
		for {
			left, err := g.queues.Restore(a.queue, a.id, a.began, due, busy.parked)
			if !left && err == nil {
				return
			}
			if time.Now().After(end) {
				if err != nil {
					g.logger().WarnContext(context.WithoutCancel(a.ctx), "asynqmw: a task on its last attempt stays archived, although only its lock was busy", "queue", a.queue, "task", a.id, "error", err)
				}
				return
			}
			time.Sleep(pause)
			pause = min(2*pause, time.Second/2)
		}
	}()
}
