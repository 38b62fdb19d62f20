// Package ticks is a model of rule 20 of docs/protocol.md, and contains only tests: a job that every replica starts by its
// own clock runs once for each tick. In further tests, processes run a job on a real server, and are killed and stopped.
//
//	go test -v ./internal/test/ticks
//
// The model visits every state that a few replicas and the server can get into, with each fault in each place.
// These promises are checked in every state:
//
//   - Once: a tick runs again only if the first run was cut short, or its replica died or lost the lock before the tick
//     was marked; and only one more time.
//   - Alone: at most one run's context is alive, whatever its tick.
//   - In time: a run begins near its tick by the server's clock.
//   - Elsewhere: a call returns "ran elsewhere" only if a run has ended while its hold lasted.
//   - Failed: a call returns "begun twice" only if two holds have begun the tick.
//   - Waits: a call returns "busy" only while another one holds the lock.
//
// The server may restart without its data, and then grants nothing for a quarantine (rule 22).
//
// The lock itself is assumed to work; package protocol models it. Time passes in steps: without a renewal, a lease lasts one
// step. A move that is sure to happen soon, such as the answer to a script, comes before the next step, unless a fault makes
// the step early.
package ticks
