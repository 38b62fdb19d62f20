// Package together has a model of rule 23 of docs/protocol.md, and nothing but tests: a call takes several locks in one
// trip, or one after the other.
//
//	go test -v ./internal/test/together
//
// The model visits every state that a few calls with two keys can get into, with each fault in each place. In every state
// these promises are checked:
//
//   - Exclusion: two calls never have the lock of one key.
//   - Whole: a call runs only with the locks of all its keys.
//   - Tokens: a lock is granted with a greater token than before.
//   - No ghost: every hold at the server is of a call that knows of it, or of an id that is to be cancelled, or of which an
//     answer is on its way.
//   - Nobody is stuck: as long as a call has not ended, something can happen that is no fault.
//
// One lock is taken for granted, with its queue, its leases and its cancels that are repeated until they are confirmed;
// package protocol has the model of that. So a grant to a call that waits is known to it at once.
package together
