// Package protocol is a model of the lock's protocol, and nothing but tests: all states that a few
// processes, the scripts and what is on its way between them can get into are visited, with each
// fault in each place.
//
//	go test -v ./internal/protocol
//	go test -v ./internal/protocol -contenders 3 -acquisitions 1 -replays 2 -delays 2 -timeout 1h
//
// What is checked, in every state:
//
//   - ME: two processes never hold the lock by the promise.
//   - F: holds start with increasing tokens, and none goes on after a later one has started.
//   - No ghost: what the server has belongs to a call that waits or holds, to a dead process, or will
//     be cancelled by a command that is repeated until it is confirmed. So nothing of a call that has
//     ended is left to its lease, or to somebody who polls.
//   - Nobody is stuck: from each state, moves that are sure to come in time lead to one where all
//     calls have ended and the lock is free. Faults are not among them, nor pushes and late copies. So
//     every run in which faults have an end arrives there, if what is possible again and again
//     happens at last.
//
// Each rule of the protocol can be switched off, and a test shows what it is that breaks; -v prints the
// shortest way to it. The model's scripts are compared with the engine's in random runs of both.
//
// How the model is smaller than the engine: a process has one ticket and one hold at a time, as a key's
// cohort has, and passes nothing on by itself (rule 10), so a grant has one token. There is no
// clock. A deadline is counted from before the run that set the expiry and is earlier by the margin:
// so whenever the server ends a hold, what was promised on the strength of it is over. That is all
// that is known of time; everything may take for ever. Marks in the done set last longer than copies
// of commands are on their way. A ticket that got lost comes back to the head of the queue. Polls and
// renewals reach the server when they are sent; a late one would change nothing but to grant a free
// lock, which is a move of its own. Left out are the budget of a run (9), which only splits it, that
// tickets are passed over if nobody listens (8), which only changes their order, and the loss of what
// the server has stored, for which ME is not promised.
package protocol
