// Package failover has a model of rule 21 of docs/protocol.md, and nothing but tests: a lock of which replicas have every
// deadline is not had twice when one of them takes the master's place, and no mark of a tick is lost.
//
//	go test -v ./internal/test/failover
//
// The model visits every state that two processes, a master and its replica can get into. The replica lags by as much as it
// likes, commands and answers take as long as they like, and at any time the replica may take the master's place, without
// what it has not got. The new master has a replica that keeps up. In every state no two processes work by a deadline that
// has not passed, and the master has each mark that a process relies on. A process may stop at any time, and be late with everything.
package failover
