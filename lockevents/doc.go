/*
Package lockevents keeps the recent history of locks in a Redis stream: who waited, who got the lock and lost it, and for how
long. It answers what an Inspector cannot, which sees only what is so now.

	insp, err := lockmw.NewInspector(rdb) // the redis client of the locks, or another one
	…
	events := lockevents.New(insp)
	defer events.Close()
	locks, err := lockmw.New(rdb, lockmw.WithObserver(events.Observer()))

It is off unless it is mounted so. What happened is read with a History:

	for e, err := range lockevents.NewHistory(insp).Follow(ctx, "user:42") {
		…
	}

# Cost

Calls for locks do not wait for it: an event is put into a buffer, and every 20 ms what has come is written by one command. A
process writes 256 events at most in that time, and counts those that it drops: the usual ones of a busy key, before waits,
losses and failures. Events of a process that dies in those 20 ms are lost.

# In Redis

The stream is at the key <prefix>:events, lockmw:events by default. An entry has the events of one process from 20 ms:

	process  host and process id, as the process of a Holder begins
	dropped  how many more there were, if any
	events   a line of JSON for each: see Event

It has about as many entries as WithLength says, and is gone a week after the last event. In a Cluster it is on one node. A user
with the rights of docs/operations.md needs +xadd to write, and +xrevrange +xread to read.
*/
package lockevents
