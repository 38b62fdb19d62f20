// Package lockmw locks what a call is about, in Redis: one order per user, one worker per item.
//
//	locks, err := lockmw.New(rdb) // any redis.UniversalClient
//	…
//	ctx, hold, err := locks.Lock(ctx, lockmw.Key("user", id))
//	if err != nil {
//		return err
//	}
//	defer hold.Unlock()
//
// Use the context that Lock returns for all work under the lock. It carries the hold, so that a nested Lock of
// the same key succeeds at once, and it ends when the lock is lost. Do, WithLock and
// WithLockValue wrap that around a function; packages httpmw and asynqmw around a route or a task.
//
// A watchdog renews a lock as long as it is held. The lock of a process that is gone becomes free by itself.
// Waiters queue in Redis. The release of the lock wakes the next one; a slow poll finds what a lost message
// missed. Goroutines of one Client that want the same key share one place in that queue, and pass the lock on
// to one another without a round trip. While other processes wait they do so a bounded number of times.
//
// Package fairlock has the same lock in strict order over all processes, and package rwlock one with
// readers and writers. Locks of all kinds exclude one another.
//
// # What can go wrong
//
// Until Hold.Deadline there is no other holder, and the hold's context ends at that time even when Redis does
// not answer. Code that goes on after it, because it was paused or does not look at its context, may run at
// the same time as the next holder. So may two holders after Redis has lost its data. Where that must not do harm, write Hold.Token with the data
// and let the store refuse a write with a smaller token: tokens increase from hold to hold.
//
// Failures are *Error values; errors.Is tells ErrBusy, which means that others have the lock, from
// ErrUnavailable, which means that Redis is in trouble.
//
// # Pages
//
// [docs/reference.md] has tables of all options and outcomes, [docs/operations.md] the access rights in Redis
// and what to do when a lock hangs, and [docs/protocol.md] the rules by which locks work there.
//
// [docs/reference.md]: https://github.com/lockmw/go/blob/main/docs/reference.md
// [docs/operations.md]: https://github.com/lockmw/go/blob/main/docs/operations.md
// [docs/protocol.md]: https://github.com/lockmw/go/blob/main/docs/protocol.md
package lockmw
