// Package asynqmw puts a lock around the processing of an asynq task, keyed by what the task is
// about: two tasks for the same item run one after the other, on however many servers, and also one
// after the other with requests and functions that lock the same key.
//
//	srv := asynq.NewServer(redis, asynqmw.Configure(asynq.Config{
//		Concurrency:              10,
//		DelayedTaskCheckInterval: time.Second,
//	}))
//	item := asynqmw.By("item", asynqmw.Payload(func(o Order) string { return o.Item }))
//	mux := asynq.NewServeMux()
//	mux.Use(asynqmw.Trace(nil))
//	mux.Handle("order:fulfil", asynqmw.WithLock(locks, item)(asynq.HandlerFunc(fulfil)))
//
// Wrap the handler rather than use mux.Use for a lock: mux.Use also locks for tasks that no handler
// exists for. Middlewares that trace or log come first, so that they see the wait.
//
// # A task that meets a busy lock
//
// is put back into the queue, without spending one of its retries, and its worker is free for others.
// It comes back 1 to 2 seconds later, and after up to twice as long each time it meets a busy lock
// again, up to 15 seconds (WithRequeueDelay), as often as it takes (WithMaxRequeues). This needs
// Configure around the server's Config. asynq reckons retry times in whole seconds and looks for tasks
// that are due every DelayedTaskCheckInterval, 5 seconds by default: set it to 1 second, and consider
// a short wait in the worker (lockmw.WithWait) before a task goes back. A task that was put back has
// no place in the queue for its lock meanwhile; with package fairlock, WithPlaceKept keeps it.
// WithOnBusy chooses something else than putting it back.
//
// # What a task meets, and what becomes of it
//
//	busy, after WithWait                 queued again, no retry spent; IsBusy(err)
//	busy, WithMaxRequeues reached        the attempt fails: a retry is spent
//	busy on the last attempt             with WithRescue a copy is enqueued; else it waits until
//	                                     shortly before the task's deadline, then archived
//	busy, server without Configure       every attempt waits like that; then a retry is spent,
//	                                     unless WithOnBusy says what to do at once
//	asynq.Deadline passes meanwhile      asynq fails the task, as any that is late
//	busy, WithOnBusy(Drop)               deleted
//	busy, WithOnBusy(Fail)               the attempt fails: a retry is spent
//	busy, WithOnBusy(Archive)            archived at once
//	Redis unavailable                    the attempt fails with lockmw.ErrUnavailable
//	the lockmw.Client is closed          as if busy, but not counted, where that means queued again or a
//	                                     copy; else the attempt fails with lockmw.ErrClosed
//	no valid key                         archived at once (asynq.SkipRetry)
//	lock lost                            the context ends; the attempt fails with lockmw.ErrLost,
//	                                     whatever the handler returns
//	the handler fails or panics          as without a lock, after the release
//
// # What can go wrong
//
// asynq archives a task that does not succeed on its last attempt, whatever the reason, so that
// mere contention would lose tasks with MaxRetry(0). With WithRescue a task that finds its lock busy on
// its last attempt goes on as a copy. Without it the last attempt waits for the lock in its worker, which
// is not there for other tasks meanwhile, until shortly before the task's deadline; if the lock is still
// busy then, the task is archived and its last error says why. asynq's Inspector can run it again. On a
// server without Configure every attempt waits like this, one that waits in vain spends a retry, and a
// warning is logged by slog.Default.
//
// A wait in the worker, by lockmw.WithWait too, uses up the task's timeout. If the lock comes late, the
// handler is cut off by asynq, which spends a retry or archives the task. Give tasks a timeout that is
// longer than the longest wait and their own work together.
//
// Middleware around WithLock must return its error, as it is or wrapped with %w: asynq takes nil for a
// task that is done. In asynq's Inspector a task that was put back is in state retry, with the busy lock
// as its last error.
//
// A task's deadline, and asynq's shutdown, do not stop a handler that ignores its context: asynq may
// start the task again meanwhile. The lock stays held until the handler has returned, but not for longer
// than 30 seconds after the deadline (lockmw.WithMaxHold), and each attempt is an owner of its own: the
// second one waits for the first until then, and runs beside it from then on. Close of the lockmw.Client
// frees the lock at once.
//
// The lock can be lost while the handler runs: Redis was away for longer than the lease, or the
// maximum hold, which is the task's deadline plus 30 seconds, is over. Then the handler's context
// ends with cause lockmw.ErrLost, and the attempt fails even if the handler reports success, or asks asynq
// to delete or archive the task, because another may have run at the same time. Work that must not happen
// twice checks the fencing token where it writes: see lockmw.Hold.Token and lockmw.Held.
//
// If the lock's Redis is unavailable the attempt fails, as with any other service that a handler
// needs: when it has not answered for the length of the wait, 2 seconds if there is none, or for as long as
// go-redis has patience (about 10 seconds by default), or has refused connections for about 2 seconds.
// WithRescue does not help then.
//
// Shut the asynq server down first, then call Shutdown and Close of the lockmw.Client. While the server
// outlives the Client its tasks go back into the queue for others, with a warning by slog.Default, but
// those on their last attempt are archived unless there is WithRescue, and attempts whose handler runs fail
// with lockmw.ErrClosed. When asynq's ShutdownTimeout is over, asynq puts back what is in its workers: the
// handler of a task that waited for its lock may still begin in that instant, with a context that ends, so
// that the task runs twice.
//
// A worker that is killed leaves its task to asynq, which finds out after about a minute, spends a retry
// and runs it again, or archives it if that was its last attempt. Its lock is free when the lease ends.
package asynqmw
