// Package protocol is a model of the lock's protocol, and nothing but tests. It visits every state that a few
// processes, the scripts and whatever is on its way between them can get into, with each fault in each place.
//
//	go test -v ./internal/test/protocol
//	go test -v ./internal/test/protocol -contenders both,both,fair -acquisitions 1 -delays 2 -timeout 1h
//
// A process takes the plain lock, a fair lock whose place in the queue is kept when the call gives up, a fair lock as one
// of a run, or a read-write lock for writing, for reading or for both. A hold for writing it may downgrade.
//
// In every state these promises are checked:
//
//   - ME: two processes never hold the lock by the promise, unless both read.
//   - F: a hold for writing starts with a token above all tokens before it, a hold for reading with a token
//     not below that of the last write. No such hold goes on after a later one has started.
//   - No ghost: every hold and ticket on the server belongs to a call that waits or holds, to a dead process,
//     or to a cancel that is repeated until it is confirmed. So nothing of a call that has ended must wait
//     for its lease to end, or for the poll of another process.
//   - Fairness: after a writer all waiting readers are admitted before the next writer. After a phase of
//     readers a waiting writer is next. While a writer waits, readers are admitted only as a new phase. No
//     script leaves a ticket waiting for nobody: if a waiting writer gives up, its cancel admits the readers
//     behind it.
//   - Turns: while a writer waits, at most one phase of readers begins; while a reader waits, at most one
//     writer is granted the lock. Each fault allows one more, because the place in the queue decides if holds
//     expire.
//   - Leases: a script never makes a hold end sooner.
//   - Places: a kept place is not used again after its ticket was granted and released.
//   - Order: a call that waits keeps its place in the queue, whatever becomes of its grants, and no run overtakes it.
//   - Nobody is stuck: from each state, moves that are sure to come in time lead to one in which all calls
//     have ended and the lock is free. Faults, pushes and late copies are not among these moves. So every run
//     in which faults come to an end arrives there, if whatever is possible again and again happens at last.
//
// Anybody may publish messages. So a push may arrive again, at any time. One that is made up or changed has no proof, and is
// ignored (rule 27): it is a move only while the rule is off.
//
// Each rule of docs/protocol.md that the model has can be switched off (rules_test.go), and a test shows
// which promise breaks (need_test.go); -v prints the shortest way to it. Random runs compare the model's
// scripts with the real ones.
//
// The model is smaller than the protocol in these points:
//
//   - A process has one ticket and one hold at a time, as the cohort of a plain lock has. It passes nothing on
//     by itself but a run (rule 25), whose calls are a process of the model each: so a grant has one token, and one
//     for each of its run. The word that ends a run arrives at once. It does not share a hold for reading among its own calls.
//   - It does not know how many calls wait behind a hold or share a ticket (rule 10): no script decides by that. The
//     random runs keep count besides the model.
//   - There is one kept place, for all processes that keep one, as for a task that is delivered twice.
//   - There is no clock, and everything may take any time. A deadline is counted from before the run that
//     set the expiry, and is earlier by the margin (rule 17). So when the server ends a hold, the deadline has
//     passed. This is all that the model knows of time.
//   - Marks in the done set last longer than copies of commands are on their way.
//   - A ticket that got lost returns to the head of the queue.
//   - Polls, peeks and renewals reach the server when they are sent. All that a late one could do is to grant a free
//     lock, which is a move of its own.
//   - The budget of a run for dead tickets is left out (rule 9): it only splits a run. So is that a ticket is
//     passed over if nobody listens (rule 8): it only changes the order. So is the loss of what the server has
//     stored, for which ME is not promised.
//   - Writes to the same key in a row are one: a Cluster ends scripts only at keys that are missing.
package protocol
