package judge

import (
	"errors"
	"time"

	"github.com/lockmw/go/lockmw"
)

// A Report is an event of a call or hold in a child process. Times are the machine's.
type Report struct {
	Event    string // one of the constants below
	Call     int    // the number in the Order
	Key      string
	Reads    bool // a read lock
	At       time.Duration
	Token    int64
	Deadline time.Duration // until when the hold is exclusive unless renewed
	Lost     bool          // for Ended: the context ended before Unlock
	Asked    time.Duration // for Granted: when Lock was called; needed for a semaphore only
	Weight   int           // of a permit
	Permits  int           // how many permits the semaphore has; 0 for a lock
	Type     string        // for Failed and Done: the error's type
	Err      string
}

// The events of a call. A hold is exclusive from Granted until the time or the Deadline of Ended, whichever comes first.
const (
	Queued  = "queued"  // the call has to wait
	Failed  = "failed"  // the call failed
	Granted = "granted" // the call received the lock
	Renewed = "renewed" // the hold has a new deadline
	Shared  = "shared"  // the hold is about to become a read hold
	Ended   = "ended"   // the hold's context has ended, or Unlock is about to be called
	Late    = "late"    // the hold's context was alive after the deadline
	Done    = "done"    // Unlock has returned
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
