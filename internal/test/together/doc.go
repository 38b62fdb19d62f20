// Package together is a model of rule 23 of docs/protocol.md, and contains only tests: a call takes several locks by a
// multi-acquire, or one after the other.
//
//	go test -v ./internal/test/together
//
// The model visits every state that a few calls with two keys can get into, with each fault in each place. These promises
// are checked in every state:
//
//   - Exclusion: no two calls hold the lock of one key.
//   - Whole: a call works only while it holds the locks of all its keys.
//   - Tokens: each grant of a lock has a greater token than the one before.
//   - No ghost: every hold on the server belongs to a call that knows it, or whose answer or cancel is in flight.
//   - Nobody is stuck: until all calls have ended, something other than a fault can happen.
//
// Single locks are assumed to work, with their queues, leases and repeated cancels; package protocol models them. So a
// waiting call learns of its grant immediately.
package together
