// Package losses has a model of how rule 13 of docs/protocol.md deals with a server that has lost what was written last, and
// nothing but tests: what a process has ended does not stay on the server, and nothing that it uses is ended.
//
//	go test -v ./internal/test/losses
//
// The model visits every state that the calls of one process and a server can get into. The server has one lock, for one or for
// several holds at a time. At any time it may save what it has, and later go back to that. Commands and answers take as long as
// they like, and calls may give up. The process learns in time that the server was away.
package losses
