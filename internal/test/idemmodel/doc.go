// Package idemmodel has a model of rule 28 of docs/protocol.md, and nothing but tests: the work of a key runs once, and every
// repetition gets the first answer.
//
//	go test -v ./internal/test/idemmodel
//
// The model visits every state that two or three processes and a server can get into. Commands and answers may be late or lost,
// and commands may run twice. A process may stop at any time, or stand still until its lease has expired and then continue. In
// every state:
//
//   - A record has at most one answer, given by the last run that has begun. A process sends only an answer that is recorded, and
//     only for its own request.
//   - No run begins once there is an answer, or while the run of a live process ends that has kept its lock.
//   - A policy that does not run the work again begins no run while the outcome of an earlier one is unknown.
//   - A policy that runs the work again knows of all earlier runs of unknown outcome. The number of the attempt does not go down.
//   - There is a limit to how many runs never return.
//   - A run that never worked does not leave the record open, unless its process has died.
//   - A record outlives its run, and no refused call prolongs it.
//
// It is smaller than the rule in these points: the lock has no queue, one grant and the script that opens the record stand for
// all ways to wait; memory is never full; there are no replicas. Next to the scripts are tests of their writes.
package idemmodel
