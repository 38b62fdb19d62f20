// Package lockmw makes calls for the same thing run one at a time, across processes, with locks in Redis. A key names
// the thing: one order per user, one worker per item.
//
//	locks, err := lockmw.New(rdb) // any redis.UniversalClient
//	…
//	err = lockmw.Do(ctx, locks, lockmw.Key("user", id), func(ctx context.Context) error {
//		return placeOrder(ctx) // ctx ends if the lock is lost
//	})
//
// The same without a function:
//
//	ctx, hold, err := locks.Lock(ctx, lockmw.Key("user", id))
//	if err != nil {
//		return err
//	}
//	defer hold.Unlock()
//
// Use the context that Lock returns for all work under the lock. It carries the hold, so that a nested Lock of the same
// key succeeds immediately, and it ends when the lock is lost.
//
// A watchdog renews the lease of a lock for as long as it is held. If a process crashes, its locks expire. Waiters queue
// in Redis: a release wakes the next waiter, and a slow poll makes up for lost messages. Goroutines of one [Client] that
// want the same key share one place in that queue and pass the lock on to one another without a round trip. While other
// processes wait, they do so a limited number of times.
//
// # In this package
//
//   - [Client.Lock], [Client.TryLock] and [Do] take one lock. [WithLock] and [WithLockValue] wrap a function.
//   - [LockAll] takes several locks, all or none.
//   - [Once] runs a scheduled job in one of several replicas, at the ticks of [Every] or [At]. [Lead] elects a leader
//     for work that one replica does for as long as it lives. See [docs/scheduled.md].
//   - [WithWait], [WithLease] and the other options set waits, leases and limits. [docs/timeouts.md] explains how they
//     work together, and [docs/reference.md] lists all options, errors and outcomes.
//   - [Hold.Token] is a fencing token, with which a database refuses the late write of a former holder. See
//     [docs/fencing.md].
//   - [Local] takes the same locks without Redis, for tests and for programs of one process. See [docs/your-tests.md].
//   - [Inspector] shows holders and waiters, and releases a lock by force. See [docs/operations.md].
//   - [Observer] receives callbacks about waits, holds and losses.
//   - [WithReplicas] and [WithQuarantine] protect locks when a Redis server fails.
//
// # Other packages
//
//   - [httpmw] locks routes of net/http and chi, and [asynqmw] locks tasks of asynq.
//   - [fairlock] grants a lock in strict order over all processes. [rwlock] has readers and writers. [semaphore] lets up
//     to n holders share a key. [redlock] keeps a lock on a majority of several independent Redis nodes.
//   - [tracing] reports locks to OpenTelemetry, [locklog] logs slow and lost locks, and [lockevents] keeps their recent
//     history in Redis.
//   - [inspector] serves a web page about the locks. The command [lockmw] shows them in a terminal.
//
// On one Redis, locks of all kinds exclude one another on the same key. A semaphore needs a key of its own.
//
// # What can go wrong
//
// Until [Hold.Deadline] there is no other holder, and the hold's context ends at that time even if Redis does not answer.
// Code that continues after that time, because it was paused or ignores its context, may overlap with the next holder.
// Two holders may also overlap after Redis has lost its data. Where an overlap does harm, store [Hold.Token] with the
// data and let the database refuse a smaller token: tokens increase from hold to hold.
//
// A failed call returns an [*Error]. With errors.Is, distinguish [ErrBusy], which means that another caller holds the
// lock, from [ErrUnavailable], which means that Redis does not answer or refuses.
//
// [httpmw]: https://pkg.go.dev/github.com/lockmw/go/httpmw
// [asynqmw]: https://pkg.go.dev/github.com/lockmw/go/asynqmw
// [fairlock]: https://pkg.go.dev/github.com/lockmw/go/fairlock
// [rwlock]: https://pkg.go.dev/github.com/lockmw/go/rwlock
// [semaphore]: https://pkg.go.dev/github.com/lockmw/go/semaphore
// [redlock]: https://pkg.go.dev/github.com/lockmw/go/redlock
// [tracing]: https://pkg.go.dev/github.com/lockmw/go/tracing
// [locklog]: https://pkg.go.dev/github.com/lockmw/go/locklog
// [lockevents]: https://pkg.go.dev/github.com/lockmw/go/lockevents
// [inspector]: https://pkg.go.dev/github.com/lockmw/go/inspector
// [lockmw]: https://pkg.go.dev/github.com/lockmw/go/cmd/lockmw
// [docs/reference.md]: https://github.com/lockmw/go/blob/main/docs/reference.md
// [docs/fencing.md]: https://github.com/lockmw/go/blob/main/docs/fencing.md
// [docs/scheduled.md]: https://github.com/lockmw/go/blob/main/docs/scheduled.md
// [docs/timeouts.md]: https://github.com/lockmw/go/blob/main/docs/timeouts.md
// [docs/your-tests.md]: https://github.com/lockmw/go/blob/main/docs/your-tests.md
// [docs/operations.md]: https://github.com/lockmw/go/blob/main/docs/operations.md
package lockmw
