package asynqmw

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/internal/loglimit"
	"github.com/lockmw/go/internal/middleware"
	"github.com/lockmw/go/internal/parked"
)

// asynq archives a task that does not succeed on its last attempt. A task whose lock was busy is set aside: asynq archives it, and
// asynqmw puts it back into state retry. So the task keeps its ID, its asynq.Unique lock and all other options.

// mustWait reports whether the attempt waits until shortly before the task's deadline, because its failure spends a retry or
// archives the task. On a server with Configure at most half of the workers wait. Call leave after the wait.
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

// save keeps asynq from archiving a task whose lock is busy, or whose Client is closed, on its last attempt. It sets the task
// aside, enqueues a copy (WithRescue), or waits for the lock.
func (g *guard) save(a *attempt, task *asynq.Task, p *parker, w parked.ListID, busy error) outcome {
	if g.rescue == nil && isClosed(busy) || g.rescue != nil && middleware.IsBusy(busy) && g.tooOften(a) {
		return outcome{err: busy}
	}
	if aside := g.setAside(p, w, a, busy); aside != nil {
		return outcome{err: aside}
	}
	if g.rescue == nil {
		return g.lock(a, true)
	}
	copyID, failed := g.rescue.copyOf(a, task, g.backOff(a.requeued))
	if failed == nil {
		g.copies.Do(func() {
			g.logger().WarnContext(a.ctx, "asynqmw: WithRescue enqueues copies, which are not unique and have new IDs, because the Redis of the queues is unknown: set WithQueueRedis", "type", task.Type(), "queue", a.queue)
		})
		return outcome{err: &busyError{err: busy, copy: copyID}}
	}
	if missed, ok := g.unsaved.Allow(loglimit.KindOf(failed)); ok {
		g.logger().WarnContext(a.ctx, "asynqmw: a task on its last attempt waits for its lock, because WithRescue could not enqueue a copy", "type", task.Type(), "task", a.origin, "error", failed, "suppressed", missed)
	}
	t := g.lock(a, true)
	if t.err != nil {
		t.err = fmt.Errorf("%w (%w)", t.err, failed)
	}
	return t
}

// setAside returns the error that sets a task on its last attempt aside; nil if that is impossible.
func (g *guard) setAside(p *parker, w parked.ListID, a *attempt, err error) *busyError {
	if g.tooOften(a) && !isClosed(err) {
		return nil
	}
	if p != nil && isClosed(err) { // park it, so that another process wakes it
		if answer := g.ask(p, w, a, 0); answer.Action == parked.Park {
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

// stateOf returns the state of a task of the same queue; "" if there is no such task, or the queue is not accessible.
func (g *guard) stateOf(a *attempt, id string) string {
	if g.queues == nil {
		return ""
	}
	state, _ := g.queues.State(a.ctx, a.queue, id)
	return state
}

// restoreFor is how long restoreLater waits until asynq has archived a task that was set aside. If asynq cannot reach Redis at that
// moment, its recoverer does so after the lease of the task (30 s), its own margin (30 s) and its interval (a minute).
const restoreFor = 3 * time.Minute

// restoreLater puts a task that was set aside back into state retry after asynq has archived it. asynq then ends the attempt's
// context.
func (g *guard) restoreLater(a *attempt, busy *busyError) {
	due := time.Now().Add(busy.retryIn())
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
				if err == nil {
					err = errors.New("asynq has not archived it yet")
				}
				g.logger().WarnContext(context.WithoutCancel(a.ctx), "asynqmw: a task on its last attempt stays archived, although only its lock was busy", "queue", a.queue, "task", a.id, "error", err)
				return
			}
			time.Sleep(pause)
			pause = min(2*pause, time.Second)
		}
	}()
}
