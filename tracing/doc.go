// Package tracing reports locks to OpenTelemetry, as spans and metrics: how long calls wait, for which holders, and how long
// locks are held. It also reports how calls of package idempotency end.
//
//	locks, err := lockmw.New(rdb, lockmw.WithObserver(tracing.New()))
//
// # What can go wrong
//
//   - Without a span in the caller's context, each lock makes two traces of its own.
//   - The name of a lock is a label of metrics. Name locks by their purpose (lockmw.WithName), never by an ID.
//   - The instrumentation of Redis clients (redisotel) writes keys into spans if its statements are turned on. WithKeyRedactor does
//     not prevent that.
//
// # Spans
//
// Both are INTERNAL and children of the caller's span; <name> is the lock's name, never its key.
//
//	acquire_lock <name>   from the call to the grant or the failure; contains the spans of the redis client
//	hold_lock <name>      from the grant to the release or the loss; contains the spans of the work under the lock
//
// hold_lock starts 1 µs after acquire_lock ends. It ends when the release is confirmed: by then another process may have held the
// lock for up to a round trip. If a call finds its lock held, its span links to the acquire_lock spans of up to 8 holders,
// also if they are in other processes. A process passes a plain lock from call to call without writing that to Redis, so that other
// processes link to the first of these calls. The status is Unset after success, and after a TryLock that found the lock busy. Any other
// failure, a loss and a failed release set Error. A call that continues without the lock (lockmw.WithFailOpen) has a failed
// acquire_lock and no hold_lock.
//
// # Span attributes
//
//	distributed_lock.name               both    string
//	distributed_lock.operation          both    lock, try_lock, lead, once
//	distributed_lock.mode               both    exclusive, fair, read, write, permit
//	distributed_lock.key                both    string; see WithKeyRedactor
//	distributed_lock.label              both    string, if there is one (lockmw.WithLabel)
//	distributed_lock.lease.duration     both    double, seconds
//	distributed_lock.fencing_token      both    int, once acquired
//	distributed_lock.outcome            both    acquired, not_acquired, timeout, deadlock, canceled, error;
//	                                            of a hold: released, lost, error
//	error.type                          both    string, ErrorType of lockmw.Error, after a failure
//	distributed_lock.contended          acquire boolean: the lock was held or other calls waited
//	distributed_lock.queue.position     acquire int, 1 is the next; if known
//	distributed_lock.holder.trace_id    acquire string, of the first link
//	distributed_lock.holder.span_id     acquire string, of the first link
//	distributed_lock.holder.label       acquire string, of the first holder in the way with a label
//	distributed_lock.renewals           hold    int, number of successful renewals of the lease; if any
//	distributed_lock.waiters_at_release hold    int, waiting calls of this process; not after a loss
//
// All attributes are set together when the span ends, so samplers see only the span's name.
//
// A call of package idempotency has no span of its own. Its outcome is the attribute distributed_lock.idempotent_call.outcome of the
// caller's span, such as the span of the request. If several calls end in one span, the last one counts. The status of that span
// is left to its owner.
//
// # Metrics
//
//	distributed_lock.wait.duration     histogram, s                  name, mode, outcome
//	distributed_lock.hold.duration     histogram, s                  name, mode, outcome
//	distributed_lock.waiters           up-down counter, {waiter}     name, mode
//	distributed_lock.held              up-down counter, {lock}       name, mode
//	distributed_lock.renewals          counter, {renewal}            name, mode, outcome
//	distributed_lock.idempotent_calls  counter, {call}               name, outcome
//
// Their attributes are distributed_lock.name, .mode and .outcome, as on the spans; the outcome of a renewal is renewed or error.
// A call of package idempotency is kept, forgotten, unfinished, replayed, done, in_flight, reused, unknown, expired, canceled or error:
// lockmw.IdempotentCall explains each.
// A renewal that finds the lock gone is not counted: the hold is lost. The histogram of waits has buckets from 1 ms to 60 s, and
// the histogram of holds up to 300 s. A view of the MeterProvider replaces them. Exemplars point to the lock's own spans. The file
// grafana/dashboard.json is a Grafana dashboard for the metrics, with the names that OpenTelemetry's Prometheus exporter gives
// them. Alerts are in [docs/operations.md].
//
// [docs/operations.md]: https://github.com/lockmw/go/blob/main/docs/operations.md#alerts
package tracing
