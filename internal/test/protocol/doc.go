// Package protocol is a model of the lock's protocol, and nothing but tests: all states that a few
// processes, the scripts and what is on its way between them can get into are visited, with each
// fault in each place.
//
//	go test -v ./internal/test/protocol
//	go test -v ./internal/test/protocol -contenders both,both,fair -acquisitions 1 -delays 2 -timeout 1h
//
// A process takes the plain lock, a fair one whose place in the queue is kept when it gives up, or one
// for writing, for reading or for both; what it writes it may downgrade.
//
// What is checked, in every state:
//
//   - ME: two processes never hold the lock by the promise, unless both read.
//   - F: holds that exclude others start with tokens above all before them, those to read with tokens
//     not below the last of these, and none goes on after a later one has started.
//   - No ghost: what the server has belongs to a call that waits or holds, to a dead process, or will
//     be cancelled by a command that is repeated until it is confirmed. So nothing of a call that has
//     ended is left to its lease, or to somebody who polls.
//   - Fairness: when somebody has written, all who wait to read are let in before the next one writes;
//     when all have read, somebody who waits to write is next; no reader is let in while somebody
//     waits to write, but by a phase that begins. No script leaves anybody waiting for nobody: if the
//     one that waits to write gives up, those who wait to read behind it are let in by that, not by time.
//   - Turns: while somebody waits to write, no more than one phase of readers begins, and while somebody
//     waits to read, no more than one gets to write; but one more for each fault there was, as the
//     place in the queue decides if holds expire.
//   - Leases: a script never makes a hold end sooner.
//   - Places: a place that was kept is not taken again after its ticket was granted and released.
//   - Nobody is stuck: from each state, moves that are sure to come in time lead to one where all
//     calls have ended and the lock is free. Faults are not among them, nor pushes and late copies. So
//     every run in which faults have an end arrives there, if what is possible again and again
//     happens at last.
//
// Each rule of the protocol can be switched off, and a test shows what it is that breaks; -v prints the
// shortest way to it. The model's scripts are compared with the engine's in random runs of both.
//
// How the model is smaller than the engine: a process has one ticket and one hold at a time. So of the
// plain lock it is what a key's cohort has; it passes nothing on by itself (rule 10), and a grant has one
// token. Nor does it share a hold to read among its own callers. There is one ticket whose place is kept,
// for all processes that keep one, as for a task that is delivered twice. There is no clock. A deadline
// is counted from before the run that set the expiry and is earlier by the margin: so whenever the server
// ends a hold, what was promised on the strength of it is over. That is all that is known of time;
// everything may take for ever. Marks in the done set last longer than copies of commands are on their
// way. A ticket that got lost comes back to the head of the queue. Polls and renewals reach the server
// when they are sent; a late one would change nothing but to grant a free lock, which is a move of its
// own. Left out are the budget of a run (9) for dead tickets, which only splits it, that tickets are
// passed over if nobody listens (8), which only changes their order, and the loss of what the server has
// stored, for which ME is not promised.
package protocol
