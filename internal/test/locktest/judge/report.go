package judge

import (
	"errors"
	"time"

	"github.com/lockmw/go/lockmw"
)

// A Report is what a child says of one of its calls for a lock. Times are the machine's.
type Report struct {
	Event    string // one of those below
	Call     int    // as the order has it
	Key      string
	Reads    bool // the hold was taken for reading
	At       time.Duration
	Token    int64
	Deadline time.Duration // until when the hold is exclusive without a further renewal
	Lost     bool          // with ended: its context ended before it was unlocked
	Type     string        // with failed and done: the error's type
	Err      string
}

// The events of a call for a lock. A hold is exclusive from granted until At of ended or the Deadline
// that ended tells, whichever comes first.
const (
	Queued   = "queued"   // the call has to wait
	Failed   = "failed"   // it did not get the lock
	Granted  = "granted"  // it did
	Renewed  = "renewed"  // the hold has another deadline
	Shared   = "shared"   // it is about to be one for reading
	Ended    = "ended"    // the hold's context has ended, or Unlock is about to be called
	Watching = "watching" // somebody begins to look at the hold's context all the time
	Watched  = "watched"  // … and saw it end
	Late     = "late"     // … and found it alive after its deadline
	Done     = "done"     // Unlock has returned

	Downgraded = "downgraded" // Downgrade has returned
)

// Because adds an error to a report.
func (r Report) Because(err error) Report {
	if err == nil {
		return r
	}
	r.Type, r.Err = "another error", err.Error()
	if e, ok := errors.AsType[*lockmw.Error](err); ok {
		r.Type = e.ErrorType()
	}
	return r
}
