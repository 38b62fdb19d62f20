// Package asynqmw runs one asynq task at a time for each customer, item or tenant: WithLock puts a lock in Redis around a
// handler, keyed by a part of the task. Tasks for the same item run one after the other, on any number of servers, and also
// exclude requests and functions that lock the same key.
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
// Wrap handlers; do not call mux.Use with a lock. It would also lock for tasks without a handler. Mount middlewares that trace
// or log before the lock, so that they see the wait.
//
// A task that meets a busy lock leaves its worker, spends no retry, and is queued again when the lock is free. This needs
// Configure around the server's Config. asynq's queues must be in the Redis of the locks, or WithQueueRedis must say where they
// are. WithOnBusy selects another action. [docs/tasks.md] describes what happens to a task in each case.
//
// A lock stops overlap, not repetition. Deduplicate runs the work of a key once, however many tasks ask for it. Mount it around
// WithLock.
//
// # What can go wrong
//
// asynq archives a task that does not succeed on its last attempt, whatever the reason. A last attempt that meets a busy lock
// waits in its worker until shortly before the task's deadline, and is archived if the lock is still busy. If half of the
// workers wait already, and always with WithRescue, the task is put back instead, as on other attempts.
//
// A wait in the worker uses up the task's timeout. Give tasks a timeout that is longer than their longest wait and their work
// together.
//
// The lock can be lost while the handler runs: Redis was unavailable for longer than the lease, or the maximum hold has ended,
// which is 30 seconds after the task's deadline. The handler's context then ends with cause lockmw.ErrLost. The attempt fails,
// whatever the handler returns. Work that must not happen twice checks the fencing token where it writes: see lockmw.Hold.Token
// and lockmw.Held.
//
// Middleware around WithLock must return its error as it is or wrapped with %w: asynq takes nil for a task that is done.
//
// # Trust
//
// The producer of a task chooses its payload, headers and ID. Your KeyFunc makes the key from payload and headers, so a task can
// lock no other key. A header may claim that the task is a copy of another one (see WithRescue). It counts only if the ID agrees
// and the other task no longer exists. If asynqmw cannot see the queue, it compares only the ID. A producer that chooses both can
// then use the place and the count of another task of the same key.
//
// A Redis user who may write asynq's keys can move, change and delete every task. A user who may write the keys of locks can end
// and forge holds. Signed tasks would prevent neither: give these rights only to your own processes.
//
// [docs/tasks.md]: https://github.com/lockmw/go/blob/main/docs/tasks.md
package asynqmw
