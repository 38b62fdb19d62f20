// Package permits has a model of rule 26 of docs/protocol.md, and nothing but tests: a semaphore never has more permits out
// than its holders agreed to.
//
//	go test -v ./internal/test/permits
//
// The model visits every state that two or three processes and a server can get into. Commands and answers may be late, and
// run twice; a script may be cut off after any of its writes; a process may stop at any time. In every state:
//
//   - At each grant, the permits whose time is not over, and those by which a process works, have together with the new
//     one a weight of at most the new one's own n.
//   - No two that work have a slot in common, and who is given a slot has a greater token than all before.
//   - No call is granted a permit while an earlier one waits.
//   - When a script has run to its end, it counts the permits that are there and no others, and nobody waits who could have a
//     permit.
//   - A permit and a ticket belong to a call that waits or holds, or a cancel for them is on its way.
//   - No lock is granted while a permit is held or waited for, and no permit while a lock is held.
//
// It is smaller than the rule in these points: a ticket of a dead process is not reaped, polls are not late, and nobody is
// passed over because no process listens.
package permits
