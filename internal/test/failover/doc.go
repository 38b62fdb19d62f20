// Package failover is a model of rules 21 and 22 of docs/protocol.md, and contains only tests: no two processes hold a lock
// when another server takes the place of the one that granted it.
//
//	go test -v ./internal/test/failover
//
// The model visits every state that two or three processes and a server can get into, in two kinds of systems. By rule 21
// a replica acknowledges every write that counts. It may lag, and at any time it may be promoted without the writes that
// it does not have. The new master has a replica that keeps up. By rule 22 there is no replica: at any time the server may
// come back with older data, under a new replication id. Commands in flight then arrive at the new server, and messages of
// the old one arrive late.
//
// In every state no two processes work before their deadlines, and the server has each mark of a tick that a process relies
// on. Commands and answers take any time. A process may stop at any time, and be late with everything.
package failover
