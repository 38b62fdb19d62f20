// Package losses is a model of how rule 13 of docs/protocol.md handles a server that has lost its latest writes, and
// contains only tests: nothing that a process has ended stays on the server, and nothing that it uses is ended.
//
//	go test -v ./internal/test/losses
//
// The model visits every state that the calls of one process and a server can get into. The server has one lock, for one
// hold or for several at a time. At any time it may save its state, and later return to it. Commands and answers take any
// time, and calls may give up. The process eventually learns that the server was unreachable.
package losses
