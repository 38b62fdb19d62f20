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
// A task that meets a busy lock is put back into the queue, without spending one of its retries, and
// its worker is free for others. It is woken as soon as the lock is free. This needs Configure around the server's
// Config, and asynq's queues in the Redis of the locks, or WithQueueRedis. WithOnBusy chooses something else. What becomes of a task in each case is described in [docs/tasks.md].
//
// # What can go wrong
//
// asynq archives a task that does not succeed on its last attempt, whatever the reason. With WithRescue
// a task that finds its lock busy on its last attempt comes back later, as on other attempts. Without it the last attempt
// waits in its worker until shortly before the task's deadline, unless half of the workers wait, and is archived if the
// lock is still busy then.
//
// A wait in the worker uses up the task's timeout: let the timeout be longer than the longest wait and
// the work together.
//
// The lock can be lost while the handler runs: Redis was away for longer than the lease, or the
// maximum hold, which is the task's deadline plus 30 seconds, is over. Then the handler's context
// ends with cause lockmw.ErrLost, and the attempt fails whatever the handler returns. Work that must not
// happen twice checks the fencing token where it writes: see lockmw.Hold.Token and lockmw.Held.
//
// Middleware around WithLock must return its error, as it is or wrapped with %w: asynq takes nil for a
// task that is done.
//
// # Trust
//
// The producer of a task chooses its payload, headers and ID. Payload and headers choose the key, as far as the KeyFunc reads
// them, and no more: a header that claims that the task is a copy of another one (see WithRescue) counts only if the ID agrees
// and that other task does not exist any more. Where asynqmw cannot see the queue it only compares the ID, and a producer that
// chooses both can use the place and the count of another task of the same key.
//
// A user who may write asynq's keys in Redis can move, change and delete every task, and one who may write the keys of locks
// can end and forge holds. No signature of a task would change that: keep these rights with your own processes.
//
// [docs/tasks.md]: https://github.com/lockmw/go/blob/main/docs/tasks.md
package asynqmw
