package asynqmw

import (
	"context"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/internal/waitlimit"
	"github.com/lockmw/go/lockmw"
)

// An attempt describes one run of a task.
type attempt struct {
	ctx      context.Context
	onServer bool    // false if the handler was called directly, as in a test
	server   *server // nil if the server's Config does not come from Configure
	last     bool    // if it fails, asynq archives the task
	id       string
	origin   string // the task's ID, or the ID of the task that it is a copy of; "" if not on a server
	queue    string
	requeued int  // how often the task was put back because of its lock, as this process has counted or a copy's header says
	limited  bool // the context has a deadline
	deadline time.Time
	began    time.Time

	// lock takes the lock of the attempt.
	lock func(ctx context.Context, opts []lockmw.Option) (context.Context, waitlimit.Unlocker, error)
}

// name identifies the task: an ID is unique only within its queue.
func (a *attempt) name() string { return a.queue + "/" + a.origin }

// newAttempt also takes the task's count of requeues. The count is stored again only if the task is put back again.
func (g *guard) newAttempt(ctx context.Context, task *asynq.Task) *attempt {
	a := &attempt{ctx: ctx}
	var retried int
	if retried, a.onServer = asynq.GetRetryCount(ctx); a.onServer {
		most, _ := asynq.GetMaxRetry(ctx)
		a.last = retried >= most
		a.id, _ = asynq.GetTaskID(ctx)
		a.queue, _ = asynq.GetQueueName(ctx)
		a.origin, a.requeued = origin(a.id, task.Headers())
		g.checkOrigin(a, task.Type())
		if retried > 0 { // the header of a copy counts requeues before the retry that it has spent
			a.requeued = 0
		}
		a.requeued = max(a.requeued, g.requeues.take(a.name()))
	}
	root, ok := ctx.Value(rootKey{}).(*rootContext)
	if !ok {
		root = &rootContext{Context: lockmw.WithoutHolds(ctx), began: time.Now()}
		if a.onServer {
			a.ctx = root
		}
	}
	a.server, a.began = root.server, root.began
	a.deadline, a.limited = ctx.Deadline()
	return a
}

// A rootContext is the context below which an attempt takes its locks. It hides a hold of the server's base context, which all
// attempts would re-enter together.
type rootContext struct {
	context.Context
	server *server // nil unless Configure has made this base context
	began  time.Time
}

type rootKey struct{}

func (c *rootContext) Value(key any) any {
	if key == (rootKey{}) {
		return c
	}
	return c.Context.Value(key)
}
