package inspect

import (
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
)

// A Record describes the record of a key (rule 28 of docs/protocol.md), without its run, its request and its answer.
type Record struct {
	State    string // open, done, forgotten or unreadable
	Running  bool   // it is open, and its run holds the lock
	Returned bool   // it is open, and its run has returned
	Status   int    // of the answer
	Size     int    // bytes of the answer, as stored
	Earlier  int    // earlier runs that left no outcome
	Silent   int    // how many of these never returned
	Token    int64
	Began    time.Time
	Ended    time.Time
	TTL      time.Duration
}

// recordOf converts the stored record of a key whose lock is held by that id; "" if by none.
func recordOf(stored *script.StoredRecord, holder string) *Record {
	if stored.Text == "" {
		return nil
	}
	known, ok := script.ParseRecord(stored.Text)
	r := &Record{
		State: "forgotten", Earlier: known.Earlier, Silent: known.Silent, Token: known.Token, TTL: stored.TTL, Began: known.Began,
	}
	switch {
	case !ok:
		r.State = "unreadable"
	case known.State == core.RecordOpen:
		r.State, r.Returned = "open", known.Returned
		r.Running = holder != "" && holder == known.ID // a run does not pass its lock on
	case known.State == core.RecordDone:
		r.State, r.Ended, r.Status, r.Size = "done", known.Ended, known.Status, stored.Answer
	}
	return r
}
