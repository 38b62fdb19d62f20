// Package scripttest runs the locks' scripts one at a time, and checks what they leave in Redis.
//
//	driver.go    a Driver is one lock on one server
//	run.go       executions of the scripts, with typed answers
//	recorded.go  executions of the scripts that deal with the record of the key
//	answer.go    checks that answers are read completely
//	snapshot.go  the contents of the lock's Redis keys
//	tidy.go      finds faults in them
//	expect.go    checks
//	inbox.go     listens to messages
//	story.go     lines of stories that a fuzz test plays, with commands of other clients
package scripttest
