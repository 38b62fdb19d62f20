package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/lockmw/go/internal/observe"
	"github.com/lockmw/go/internal/recordview"
	"github.com/lockmw/go/lockmw"
)

// The records that --json prints. Field names never change; new fields may appear. Times are by the server's clock, in RFC 3339.

type lockRecord struct {
	Key         string         `json:"key"`
	Mode        string         `json:"mode"` // "" if nobody holds it
	Holders     []holderRecord `json:"holders"`
	Waiting     int            `json:"waiting"` // calls
	LongestWait *float64       `json:"longest_wait_seconds"`
	Waiters     []waiterRecord `json:"waiters"`
	Kept        []keptRecord   `json:"kept"`
	Work        *workRecord    `json:"record,omitempty"`     // whether the work of the key was done
	Tasks       []taskRecord   `json:"tasks,omitempty"`      // waiting tasks of asynq; with show only
	MoreTasks   int            `json:"more_tasks,omitempty"` // approximate number of tasks that are not in Tasks
	Error       string         `json:"error,omitempty"`      // why the key could not be read
}

type holderRecord struct {
	ID      string    `json:"id"` // the argument of --holder
	Label   string    `json:"label"`
	Process string    `json:"process"`
	Since   time.Time `json:"since"`
	Held    float64   `json:"held_seconds"`
	TTL     float64   `json:"ttl_seconds"`
	Token   int64     `json:"token"`
	Owner   string    `json:"owner"`
	Fixed   bool      `json:"fixed"`   // the lease is not renewed
	Lingers bool      `json:"lingers"` // released, but the key stays taken (WithMinHold)
	Weight  int       `json:"weight,omitempty"`
	Slots   string    `json:"slots,omitempty"`
	Trace   string    `json:"trace_id,omitempty"`
}

type waiterRecord struct {
	Position int        `json:"position"` // 0: waits in the holder's process
	Ticket   string     `json:"ticket,omitempty"`
	Process  string     `json:"process"`
	Mode     string     `json:"mode"`
	Calls    int        `json:"calls"`
	Label    string     `json:"label"`
	Since    *time.Time `json:"since"`
	Waiting  *float64   `json:"waiting_seconds"`
	Weight   int        `json:"weight,omitempty"`
}

type keptRecord struct {
	Name  string    `json:"name"`
	Since time.Time `json:"since"`
	TTL   float64   `json:"ttl_seconds"`
}

// seconds converts a duration to seconds, to the millisecond.
func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }

// idOf returns the ID of a hold: its token, and the beginning of its owner, because readers share a token.
func idOf(h lockmw.Holder) string { return fmt.Sprintf("%d-%.*s", h.Token, ownerInID, h.Owner) }

// ownerInID is the number of characters of the owner in an ID.
const ownerInID = 8

func holderOf(h lockmw.Holder, now time.Time) holderRecord {
	r := holderRecord{
		ID: idOf(h), Label: h.Label, Process: h.Process, Since: h.Since.UTC(), Held: seconds(max(now.Sub(h.Since), 0)), TTL: seconds(h.TTL),
		Token: h.Token, Owner: h.Owner, Fixed: h.Fixed, Lingers: h.Lingers, Weight: h.Weight, Slots: h.Slots,
	}
	if p, ok := observe.ParseTraceParent(h.TraceParent); ok {
		r.Trace = hex.EncodeToString(p.TraceID[:])
	}
	return r
}

// recordOf converts a status to the record that --json prints.
func recordOf(s lockmw.Status, now time.Time) lockRecord {
	r := lockRecord{
		Key: s.Key, Mode: s.Mode, Waiting: s.Waiting(), LongestWait: waitSince(s.WaitingSince(), now),
		Holders: []holderRecord{}, Waiters: []waiterRecord{}, Kept: []keptRecord{}, Work: workOf(s.Record),
	}
	for _, h := range s.Holders {
		r.Holders = append(r.Holders, holderOf(h, now))
	}
	for _, w := range s.Waiters {
		r.Waiters = append(r.Waiters, waiterRecord{
			Position: w.Position, Ticket: w.Ticket, Process: w.Process, Mode: w.Mode, Calls: w.Calls, Label: w.Label,
			Since: recordview.Time(w.Since), Waiting: waitSince(w.Since, now), Weight: w.Weight,
		})
	}
	for _, k := range s.Kept {
		r.Kept = append(r.Kept, keptRecord{k.Name, k.Since.UTC(), seconds(k.TTL)})
	}
	return r
}

// waitSince returns the length of a wait in seconds; nil if its start is unknown.
func waitSince(since, now time.Time) *float64 {
	if since.IsZero() {
		return nil
	}
	wait := seconds(max(now.Sub(since), 0))
	return &wait
}

// isFree reports whether nobody holds or waits for the lock, or has a kept place.
func (r *lockRecord) isFree() bool { return r.Mode == "" && len(r.Waiters) == 0 && len(r.Kept) == 0 }

// longest is the longest wait in seconds; -1 if no wait is known.
func (r *lockRecord) longest() float64 {
	if r.LongestWait == nil {
		return -1
	}
	return *r.LongestWait
}

// held is the time in seconds that the first holder has held the lock; -1 without a holder.
func (r *lockRecord) held() float64 {
	if len(r.Holders) == 0 {
		return -1
	}
	return r.Holders[0].Held
}

// printJSON prints one object on a line. It escapes characters that control a terminal; programs that parse the line still read
// the same text.
func (c *command) printJSON(v any) error {
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := c.out.Write(escapeJSON(line.Bytes()))
	return err
}

// line prints one object on a line with --json, and otherwise calls show, which prints text. It
// flushes the output for a reader that waits.
func (c *command) line(v any, show func()) error {
	if !c.json {
		show()
	} else if err := c.printJSON(v); err != nil {
		return err
	}
	return c.out.Flush()
}

// escapeJSON escapes invisible characters in a line of JSON. They can occur only in its strings.
func escapeJSON(line []byte) []byte {
	escaped := make([]byte, 0, len(line))
	for _, r := range string(line) {
		if r == '\n' || unicode.IsPrint(r) {
			escaped = utf8.AppendRune(escaped, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			escaped = fmt.Appendf(escaped, `\u%04x`, unit)
		}
	}
	return escaped
}
