package asynqmw

import (
	"context"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/lockmw"
)

// An attempt is what is known of one run of a task.
type attempt struct {
	ctx        context.Context
	onServer   bool // else somebody called the handler directly, as a test does
	configured bool
	last       bool   // asynq archives the task unless this attempt succeeds
	origin     string // the task's ID, or that of the task it is a copy of; empty if not on a server
	queue      string
	requeued   int  // how often the task was put back because of its lock, as far as is known here
	limited    bool // the context has a deadline
	deadline   time.Time
	timeout    time.Duration // from the attempt's begin to there
}

// name tells the task from all others: an ID is unique in its queue only.
func (a *attempt) name() string { return a.queue + "/" + a.origin }

// newAttempt forgets how often the task was put back: the count goes on only if it is again.
func (g *guard) newAttempt(ctx context.Context, task *asynq.Task) *attempt {
	a := &attempt{ctx: ctx}
	var retried int
	if retried, a.onServer = asynq.GetRetryCount(ctx); a.onServer {
		most, _ := asynq.GetMaxRetry(ctx)
		a.last = retried >= most
		id, _ := asynq.GetTaskID(ctx)
		a.queue, _ = asynq.GetQueueName(ctx)
		a.origin, a.requeued = origin(id, task.Headers())
		if retried > 0 { // by a copy: what its header says was before
			a.requeued = 0
		}
		a.requeued = max(a.requeued, g.requeues.take(a.name()))
	}
	root, ok := ctx.Value(rootKey{}).(*rootContext)
	if !ok {
		root = &rootContext{Context: ctx, began: time.Now()}
		if a.onServer {
			a.ctx = root
		}
	}
	a.configured = root.configured
	if a.deadline, a.limited = ctx.Deadline(); a.limited {
		a.timeout = a.deadline.Sub(root.began)
	}
	return a
}

// A rootContext is where the locks of an attempt begin: it hides a hold that the server's base
// context may carry, which all attempts would re-enter together.
type rootContext struct {
	context.Context
	configured bool // it is the base context of a server that was given to Configure
	began      time.Time
}

type rootKey struct{}

func (c *rootContext) Value(key any) any {
	if key == (rootKey{}) {
		return c
	}
	v := c.Context.Value(key)
	if _, ok := v.(*lockmw.Hold); ok {
		return nil
	}
	return v
}
