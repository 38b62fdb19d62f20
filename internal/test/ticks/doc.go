// Package ticks has a model of rule 20 of docs/protocol.md, and nothing but tests: a job that every replica starts by
// its own clock runs once for each tick. Beside it, processes run a job on a real server, and are killed and stopped.
//
//	go test -v ./internal/test/ticks
//
// The model visits every state that a few replicas and the server can get into, with each fault in each place.
// In every state these promises are checked:
//
//   - Once: a tick is run again only if the run before was cut short, or its replica died or lost the lock before the
//     mark was there; and only once more.
//   - Alone: at most one run's context is alive, whatever ticks the runs are of.
//   - In time: a run begins near its tick by the server's clock.
//   - Elsewhere: a replica is told "ran elsewhere" only if a run came to its end while its hold lasted.
//   - Failed: a replica is told that the tick was begun twice only if two holds have begun it.
//   - Waits: a replica goes home with "busy" only while another one has the lock.
//
// The server may restart without its data, and then grants nothing for the time of a quarantine (rule 22).
//
// The lock itself is taken for granted; package protocol has the model of that. Time goes in steps: a lease lasts for
// one unless it is renewed. Whatever is sure to come soon, such as the answer to a script, comes before the next step
// unless the fault of a step that is too early is spent on it.
package ticks
