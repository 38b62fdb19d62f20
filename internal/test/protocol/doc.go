// Package protocol is a model of the lock's protocol, and contains only tests. It visits every state that a few processes,
// the scripts and everything in flight between them can get into, with each fault in each place.
//
//	go test -v ./internal/test/protocol
//	go test -v ./internal/test/protocol -contenders both,both,fair -acquisitions 1 -delays 2 -timeout 1h
//
// A process takes the plain lock, a fair lock whose place is kept when the call gives up, a fair lock as a member of a
// grant batch, or a read-write lock for writing, for reading or for both. It may downgrade a write hold.
//
// These promises are checked in every state:
//
//   - ME, mutual exclusion: no two processes hold the lock before their deadlines, unless both read.
//   - F, fencing: a write hold starts with a token above all earlier ones, a read hold with a token not below that of the
//     last write. No such hold continues after a later one has started.
//   - No ghost: every hold and ticket on the server belongs to a call that waits or holds, to a dead process, or to a
//     cancel that is repeated until it is confirmed. So nothing that an ended call leaves behind has to wait for the end
//     of its lease, or for the poll of another process.
//   - Fairness: after a writer all waiting readers are admitted before the next writer. After a phase of readers a
//     waiting writer is next. While a writer waits, readers are admitted only as a new phase. No script leaves a ticket
//     waiting without a reason: if a waiting writer gives up, its cancel admits the readers behind it.
//   - Turns: while a writer waits, at most one phase of readers begins; while a reader waits, at most one writer is
//     granted the lock. Each fault allows one more, because after an expiry the head of the queue decides.
//   - Leases: no script makes a hold end sooner.
//   - Places: a kept place is not used again after its ticket was granted and released.
//   - Order: a waiting call keeps its place in the queue, whatever happens to its grants, and no grant batch overtakes it.
//   - Live: no ticket of a live process is taken for dead.
//   - Nobody is stuck: from each state, moves that are sure to happen lead to one in which all calls have ended and the
//     lock is free. Faults, pushes and late copies are not among these moves. So every execution in which the faults come
//     to an end arrives there, if a move that stays possible happens eventually.
//
// Anybody may publish messages, so a push may arrive again at any time. A forged push has no proof and is ignored (rule
// 27): it is a move only while that rule is off.
//
// Each modelled rule of docs/protocol.md can be switched off (rules_test.go). A test shows which promise breaks without it
// (need_test.go); -v prints the shortest path to the breach. Random executions compare the model's scripts with the real
// ones.
//
// The model simplifies the protocol:
//
//   - A process has one ticket and one hold at a time, as the cohort of a plain lock has. It passes the lock on only
//     within a grant batch (rule 25), each call of which is a process of the model. So a grant has one token, and one for
//     each member of its batch. The message that ends a batch arrives immediately. Calls do not share a read hold.
//   - It does not count the calls that wait behind a hold or share a ticket (rule 10): no script decides anything by that
//     number. The random executions count them next to the model.
//   - There is one kept place for all processes that keep one, as for a task that is delivered twice.
//   - There is no clock, and everything may take any time. A deadline counts from before the execution that set the
//     expiry, and is earlier by the margin (rule 17). So when the server ends a hold, its deadline has passed. The model
//     knows nothing else about time.
//   - Done marks last longer than copies of commands are in flight.
//   - A lost ticket returns to the head of the queue.
//   - Polls, peeks and renewals reach the server when they are sent. A late one could only grant a free lock, which is a
//     move of its own.
//   - It omits the limit on tickets per execution (rule 9), which only splits an execution, and tickets that are passed
//     over because no process listens (rule 8), which only changes the order. It also omits the loss of the server's data,
//     for which ME is not promised.
//   - Consecutive writes to the same key count as one: a Cluster ends scripts only at missing keys.
package protocol
