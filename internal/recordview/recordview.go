// Package recordview describes locks and records of idempotent calls, for the page and the command.
package recordview

import (
	"fmt"
	"time"

	"github.com/lockmw/go/lockmw"
)

// Outcome returns what is known of the work: "running", "unknown", "done", or "none" if no run of it counts.
func Outcome(r *lockmw.Record) string {
	switch {
	case r.State == "done":
		return "done"
	case r.Running:
		return "running"
	case r.State == "open":
		return "unknown"
	}
	return "none"
}

// Time returns a time as JSON shows it: in UTC, or null if it is zero.
func Time(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// Explain describes the state of a record in words, and what an operator can do about it; the hint is "" if there is nothing to do. held is
// whether the lock of the key has a holder.
func Explain(r *lockmw.Record, held bool) (state, hint string) {
	switch Outcome(r) {
	case "done":
		return "done", ""
	case "running":
		return "open: its run works, and holds the lock", ""
	case "none":
		if r.State == "forgotten" {
			return "forgotten: the last run did nothing, a repetition runs", ""
		}
		return fmt.Sprintf("%s: other data is there, calls fail with ErrWrongType", r.State), ""
	}
	state = "open: its run does not hold the lock; it crashed, or still works"
	if r.Returned {
		state = "open: its run returned without an outcome"
	}
	if held {
		return state, "its outcome is unknown, and the holder may be deciding: look again"
	}
	return state, "its outcome is unknown: find out what it did, then call Runner.Resolve"
}
