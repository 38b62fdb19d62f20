// Package tracing shows locks in OpenTelemetry: how long calls wait, for whom, and how long locks are
// held.
//
//	locks, err := lockmw.New(rdb, lockmw.WithObserver(tracing.New()))
//
// What can go wrong: without a span in the caller's context each lock makes two traces of its own. Names
// are labels of metrics: name locks by policy (lockmw.WithName), never by what is locked. The
// instrumentation of Redis clients (redisotel) writes keys into spans if its statements are switched on;
// WithKeyRedactor cannot prevent that.
//
// # Spans
//
// Both are INTERNAL and children of the caller's span; <name> is the lock's name, never its key.
//
//	acquire_lock <name>   from the call to the grant or the failure; the lock client's spans nest inside
//	hold_lock <name>      from the grant to the release or the loss; the guarded work's spans nest inside
//
// hold_lock starts 1 µs after acquire_lock ends, and ends when the release is confirmed: another process
// may have the lock for up to a round trip by then. If a call finds its lock held, its span links to the
// acquire_lock spans of at most 8 holders, also of other processes. The status is Unset after success and
// after a TryLock that found the lock busy; any other failure, a loss and a failed release set Error. A
// call that goes on without a lock (lockmw.WithFailOpen) has a failed acquire_lock and no hold_lock.
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
//	error.type                          both    string, lockmw.Error's ErrorType, unless all went well
//	distributed_lock.contended          acquire boolean: others were in the way
//	distributed_lock.queue.position     acquire int, 1 is the next; if known
//	distributed_lock.holder.trace_id    acquire string, of the first link
//	distributed_lock.holder.span_id     acquire string, of the first link
//	distributed_lock.holder.label       acquire string, of the first holder in the way that has one
//	distributed_lock.renewals           hold    int, renewals of the lease that succeeded; if any
//	distributed_lock.waiters_at_release hold    int, waiters of this process; unless a loss ended it
//
// They are set when the span ends, in one go; samplers see the span's name.
//
// # Metrics
//
//	distributed_lock.wait.duration  histogram, s                  name, mode, outcome
//	distributed_lock.hold.duration  histogram, s                  name, mode, outcome
//	distributed_lock.waiters        up-down counter, {waiter}     name, mode
//	distributed_lock.held           up-down counter, {lock}       name, mode
//	distributed_lock.renewals       counter, {renewal}            name, mode, outcome
//
// Their attributes are distributed_lock.name, .mode and .outcome as on the spans; the outcome of a
// renewal is renewed or error. A renewal that finds the lock gone is not counted: the hold is lost.
// The histograms have buckets from 1 ms to 60 s, of holds to 300 s; a view of the MeterProvider replaces them.
// Exemplars point to the lock's own spans. The file grafana/dashboard.json shows the metrics in Grafana, under the
// names that OpenTelemetry's exporter for Prometheus gives them; [docs/operations.md] has alerts.
//
// [docs/operations.md]: https://github.com/lockmw/go/blob/main/docs/operations.md#alerts
package tracing
