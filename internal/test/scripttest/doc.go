// Package scripttest runs the locks' scripts by hand, one at a time, and looks at what they leave in Redis.
//
//	driver.go    a Driver is one lock on one server
//	run.go       runs of the scripts, with typed answers
//	recorded.go  runs of the scripts that deal with the record of the key
//	answer.go    what an answer must not have besides what is read of it
//	snapshot.go  what the Redis keys of the lock hold
//	tidy.go      what is wrong with them
//	expect.go    checks
//	inbox.go     who listens to messages
//	story.go     lines of stories that a fuzz test plays, and strangers in them
package scripttest
