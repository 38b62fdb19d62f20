// Package quarantine has a model of rule 22 of docs/protocol.md, and nothing but tests: a lock that a server has lost is not
// had by another before its holder is done.
//
//	go test -v ./internal/test/quarantine
//
// The model visits every state that two processes and a server can get into. At any time the server may come back with what
// it had at an earlier time, or another one may take its place; both have a new replication id. Commands that are on their
// way then arrive at the new server, and messages of the old one arrive late. In every state no two processes work by a
// deadline that is not over. A process may stop at any time, and be late with everything.
package quarantine
