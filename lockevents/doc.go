/*
Package lockevents records the recent history of locks in a Redis stream: which calls waited, which got or lost a lock, and for
how long. An Inspector shows only the present; this package answers what happened before.

	insp, err := lockmw.NewInspector(rdb) // the redis client of the locks, or another one
	…
	events := lockevents.New(insp)
	defer events.Close()
	locks, err := lockmw.New(rdb, lockmw.WithObserver(events.Observer()))

Without such an observer no events are recorded. A [History] reads them:

	for e, err := range lockevents.NewHistory(insp).Follow(ctx, "user:42", 10) {
		…
	}

The web page of package inspector and the command lockmw show the same history.

# Cost and losses

Calls for locks do not wait for the recording. Events go into a buffer, and every 20 ms one command writes the buffer to Redis.
A process writes at most 256 events in that time, and drops further ones: first acquisitions and releases of a busy key, which
are frequent, before waits, losses and failures. It records how many it dropped. Events of a process that crashes before they
are written are lost.

# In Redis

The stream is at the key <prefix>:events, lockmw:events by default. An entry contains the events of one process from 20 ms:

	process  host and process id, which are the beginning of Holder.Process
	dropped  number of further events that were dropped, if any
	events   one line of JSON for each event: see Event

The stream has about as many entries as WithLength sets, and expires a week after the last event. In a Cluster it is on one node.
A user with the rights of [docs/operations.md] also needs +xadd to write, and +xrevrange +xread to read.

[docs/operations.md]: https://github.com/lockmw/go/blob/main/docs/operations.md#access-rights
*/
package lockevents
