// Package failover has a model of rules 21 and 22 of docs/protocol.md, and nothing but tests: a lock is not had twice when
// another server takes the place of the one that granted it.
//
//	go test -v ./internal/test/failover
//
// The model visits every state that two or three processes and a server can get into, in one of two kinds of systems. By rule
// 21 a replica acknowledges whatever counts. It lags by as much as it likes, and at any time it may take the master's place,
// without what it has not got. The new master has a replica that keeps up. By rule 22 there is no replica: at any time the
// server may come back with what it had at an earlier time, under a new replication id. Commands that are on their way then
// arrive at the new server, and messages of the old one arrive late.
//
// In every state no two processes work by a deadline that has not passed, and the server has each mark of a tick that a process
// relies on. Commands and answers take as long as they like. A process may stop at any time, and be late with everything.
package failover
