// Package rivermw runs one river job at a time for each customer, item or tenant: WithLock puts a lock in Redis around a worker,
// keyed by a part of the job's args. Jobs for the same customer run one after the other, on any number of clients, and also exclude
// requests and functions that lock the same key.
//
//	waker, err := rivermw.NewWaker(riverpgxv5.New(pool), pool.Begin)
//	…
//	defer waker.Close()
//	byCustomer := rivermw.By("customer", rivermw.Args(func(a InvoiceArgs) string { return a.Customer }))
//	river.AddWorker(workers, &InvoiceWorker{lock: rivermw.WithLock(locks, byCustomer, rivermw.WithWaker(waker))})
//
// The worker returns the middleware:
//
//	func (w *InvoiceWorker) Middleware(*rivertype.JobRow) []rivertype.WorkerMiddleware {
//		return []rivertype.WorkerMiddleware{w.lock}
//	}
//
// A job that meets a busy lock waits in its worker for a moment and is then snoozed, which spends no attempt. The Waker makes it
// available again when the lock is free. Without a Waker it comes back by the clock. WithOnBusy selects another action.
// [docs/river.md] describes what happens to a job in each case.
//
// # What can go wrong
//
// The lock can be lost while the worker runs: Redis was unavailable for longer than the lease, or the maximum hold has ended
// (lockmw.WithMaxHold). The worker's context then ends with cause lockmw.ErrLost. The attempt fails, whatever the worker returns.
// Work that must not happen twice checks the fencing token where it writes: see lockmw.Hold.Token and lockmw.Held.
//
// A hold has no limit by default. If a worker ignores its context, its lock stays held after the job's timeout, until the worker
// returns.
//
// Middleware around WithLock must return its error as it is or wrapped with %w: river takes nil for a job that is completed.
//
// [docs/river.md]: https://github.com/lockmw/go/blob/main/docs/river.md
package rivermw
