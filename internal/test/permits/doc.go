// Package permits is a model of rule 26 of docs/protocol.md, and contains only tests: no grant of a semaphore exceeds the
// permit's own n.
//
//	go test -v ./internal/test/permits
//
// The model visits every state that two or three processes and a server can get into. Commands and answers may be late,
// and run twice; a script may be cut off after any of its writes; a process may stop at any time. In every state:
//
//   - At each grant, the weight of all unexpired permits and of all permits by which a process works, with the new one,
//     is at most the new permit's own n.
//   - No two working processes share a slot, and each grant of a slot has a greater token than all earlier ones.
//   - No call is granted a permit while an earlier one waits.
//   - After a complete execution of a script, the counts are those of the live permits, and no call waits that could have
//     a permit.
//   - A permit and a ticket belong to a call that waits or holds, or a cancel for them is in flight.
//   - No lock is granted while a permit is held or waited for, and no permit while a lock is held.
//
// The model is smaller than the rule: tickets of dead processes are not removed, polls are not late, and no ticket is
// passed over because no process listens.
package permits
