package main

import (
	"io"
	"time"

	"github.com/lockmw/go/internal/recordview"
	"github.com/lockmw/go/lockmw"
)

// A workRecord says whether the work of a key was done: see lockmw.Record.
type workRecord struct {
	State    string     `json:"state"`
	Outcome  string     `json:"outcome"`  // running, unknown, done or none
	Returned *bool      `json:"returned"` // null unless it is open
	Status   int        `json:"status,omitempty"`
	Size     int        `json:"answer_bytes"`
	Earlier  int        `json:"earlier"`
	Silent   int        `json:"never_returned"` // of the earlier runs
	Token    int64      `json:"token"`
	Began    *time.Time `json:"began"`
	Ended    *time.Time `json:"ended"`
	TTL      float64    `json:"ttl_seconds"`

	record *lockmw.Record
}

// workOf converts the record of a key; nil if it has none.
func workOf(r *lockmw.Record) *workRecord {
	if r == nil {
		return nil
	}
	w := &workRecord{
		State: r.State, Outcome: recordview.Outcome(r), Status: r.Status, Size: r.Size, Earlier: r.Earlier, Silent: r.Silent,
		Token: r.Token, Began: recordview.Time(r.Began), Ended: recordview.Time(r.Ended), TTL: seconds(r.TTL), record: r,
	}
	if r.State == "open" {
		w.Returned = &r.Returned
	}
	return w
}

// printWork prints whether the work of a key was done, if it has a record.
func printWork(out io.Writer, r *lockRecord) {
	w := r.Work
	if w == nil {
		return
	}
	state, hint := recordview.Explain(w.record, len(r.Holders) > 0)
	printf(out, "\n  record  %s\n", state)
	line := func(name, format string, args ...any) { printf(out, "    %-8s %s\n", name, say(format, args...)) }
	if w.Began != nil {
		line("began", "%s", w.Began.Local().Format(time.DateTime))
	}
	if w.Ended != nil {
		line("ended", "%s", w.Ended.Local().Format(time.DateTime))
	}
	line("expires", "in %s", ago(w.TTL))
	if w.Status > 0 {
		line("status", "%d", w.Status)
	}
	if w.Outcome == "done" {
		line("answer", "%s", count(w.Size, "byte"))
	}
	if w.Earlier > 0 {
		line("earlier", "%s without an outcome, %d never returned", count(w.Earlier, "run"), w.Silent)
	}
	if w.Token > 0 {
		line("token", "%d", w.Token)
	}
	if hint != "" {
		printf(out, "    → %s\n", hint)
	}
}
