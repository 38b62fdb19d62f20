package lockmw

import "time"

// A Record says whether the work of a key was done (package idempotency). It does not contain the answer, the request or the
// identity of the run. Times are by the server's clock.
type Record struct {
	// State is one of:
	//
	//	open        a run has begun; if it is not Running, its outcome is unknown
	//	done        the answer is recorded, and a repetition gets it
	//	forgotten   the last run did nothing, so a repetition runs
	//	unreadable  another program's data is there: calls of package idempotency fail with ErrWrongType
	State    string
	Running  bool          // it is open, and its run holds the lock
	Returned bool          // it is open, and its run has returned without an outcome; otherwise the run crashed or may still work
	Status   int           // HTTP status of the answer; 0 if there is none
	Size     int           // bytes of the answer as it is stored: with its headers, and after compression and encryption
	Earlier  int           // number of earlier runs that left no outcome, without the open one
	Silent   int           // how many of these never returned; RunAgain does not replace a third one
	Token    int64         // fencing token of the last run
	Began    time.Time     // when the last run began; zero if it is forgotten
	Ended    time.Time     // when the answer was recorded; zero if there is none
	TTL      time.Duration // how much longer it is kept
}
