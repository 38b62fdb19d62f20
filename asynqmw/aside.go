package asynqmw

import (
	"context"
	_ "embed" // the script
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/loglimit"
	"github.com/lockmw/go/internal/parked"
	"github.com/lockmw/go/lockmw"
)

// asynq archives a task that does not succeed on its last attempt. One whose lock was busy is set aside: its attempt
// ends with an error that names a nonce, asynq archives the task, and restore.lua puts it back to be retried. So the
// task keeps its ID, what asynq.Unique keeps for it, and whatever else it was enqueued with.

var (
	//go:embed restore.lua
	restoreLua    string
	restoreScript = redis.NewScript(restoreLua)
)

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
func (g *guard) save(a *attempt, task *asynq.Task, p *parking, id crowdID, key string, busy error) (context.Context, *lockmw.Hold, func(), error) {
	if g.rescue == nil && isClosed(busy) || g.rescue != nil && isBusy(busy) && g.tooOften(a) {
		return nil, nil, func() {}, busy
	}
	if aside := g.setAside(p, id, a, busy); aside != nil {
		return nil, nil, func() {}, aside
	}
	if g.rescue == nil {
		return g.lock(a, key, true)
	}
	copyID, failed := g.rescue.copyOf(a, task, g.backOff(a.requeued))
	if failed == nil {
		g.copies.Do(func() {
			g.logger().WarnContext(a.ctx, "asynqmw: WithRescue enqueues copies, which are not unique and have IDs of their own, as the Redis of the queues is not known: see WithQueueRedis", "type", task.Type(), "queue", a.queue)
		})
		return nil, nil, func() {}, &busyError{err: busy, copy: copyID}
	}
	if missed, ok := g.unsaved.Allow(loglimit.KindOf(failed)); ok {
		g.logger().WarnContext(a.ctx, "asynqmw: a task on its last attempt waits for its lock, as WithRescue could not enqueue a copy", "type", task.Type(), "task", a.origin, "error", failed, "suppressed", missed)
	}
	ctx, hold, release, err := g.lock(a, key, true)
	if err != nil {
		err = fmt.Errorf("%w (%w)", err, failed)
	}
	return ctx, hold, release, err
}

// setAside returns the error that sets a task on its last attempt aside; nil if that is not possible.
func (g *guard) setAside(p *parking, id crowdID, a *attempt, err error) *busyError {
	if g.tooOften(a) && !isClosed(err) {
		return nil
	}
	if p != nil && isClosed(err) { // so that another process calls it
		c := parkCall{crowdID: id, id: a.id, nonce: newNonce(), last: true}
		if answer, failed := g.ask(p, a, c); failed == nil && answer.what == parkTask {
			return g.parked(p, a, c, answer, err)
		}
	}
	if !g.isHere(a) {
		return nil
	}
	busy := g.putBack(a, err)
	busy.nonce = newNonce()
	return busy
}

// isHere reports whether the task is where asynq keeps it, in the Redis that is known.
func (g *guard) isHere(a *attempt) bool { return g.stateOf(a, a.id) == "active" }

// stateOf returns the state of a task of the same queue; "" if there is none, or the queue cannot be seen.
func (g *guard) stateOf(a *attempt, id string) string {
	if g.queues == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(a.ctx, answerIn)
	defer cancel()
	return g.queues.HGet(ctx, parked.TaskPrefix(a.queue)+id, "state").Val()
}

// restoreFor is how long asynq is given to archive a task that was set aside.
const restoreFor = 10 * time.Second

// restoreLater puts a task back that was set aside, when asynq has archived it: then it ends the context.
func (g *guard) restoreLater(a *attempt, busy *busyError) {
	due := time.Now().Add(busy.delay)
	go func() {
		select {
		case <-a.ctx.Done():
		case <-time.After(time.Second): // a middleware may hide the end
		}
		end, pause := time.Now().Add(restoreFor), time.Millisecond
		for {
			left, err := g.restore(a, busy.nonce, due)
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

// restore reports whether the task is still active.
func (g *guard) restore(a *attempt, nonce string, due time.Time) (active bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerIn)
	defer cancel()
	now := time.Now().UTC()
	day := now.Format(time.DateOnly)
	keys := []string{
		parked.TaskPrefix(a.queue) + a.id, parked.InQueue(a.queue, "archived"), parked.InQueue(a.queue, "retry"),
		parked.InQueue(a.queue, "processed:"+day), parked.InQueue(a.queue, "failed:"+day), parked.InQueue(a.queue, "processed"), parked.InQueue(a.queue, "failed"),
	}
	what, err := restoreScript.Run(ctx, g.queues, keys, a.id, nonce, due.Unix(), now.Unix()/86400).Int()
	return what == 2, err
}
