package inspector

import (
	"time"

	"github.com/lockmw/go/internal/recordview"
	"github.com/lockmw/go/lockmw"
)

// A record says whether the work of a lock's key was done: see lockmw.Record.
type record struct {
	State    string     `json:"state"`
	Outcome  string     `json:"outcome"` // running, unknown, done or none
	Status   int        `json:"status,omitempty"`
	Size     int        `json:"answer_bytes"`
	Earlier  int        `json:"earlier"`
	Silent   int        `json:"never_returned"` // of the earlier runs
	Token    int64      `json:"token"`
	Began    *time.Time `json:"began"`
	Ended    *time.Time `json:"ended"`
	KeptFor  millis     `json:"kept_for_ms"`
	Sentence string     `json:"-"` // the state in words
	Hint     string     `json:"-"` // what to do; may be empty
}

// record converts the record of s, which was read at a time; nil if the key has none.
func (v *view) record(s *lockmw.Status, at, now time.Time) *record {
	r := s.Record
	if r == nil {
		return nil
	}
	shown := &record{
		State: r.State, Outcome: recordview.Outcome(r), Status: r.Status, Size: r.Size, Earlier: r.Earlier, Silent: r.Silent,
		Token: r.Token, Began: recordview.Time(r.Began), Ended: recordview.Time(r.Ended), KeptFor: millisOf(r.TTL - now.Sub(at)),
	}
	shown.Sentence, shown.Hint = recordview.Explain(r, len(s.Holders) > 0)
	return shown
}
