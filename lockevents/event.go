package lockevents

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lockmw/go/internal/core"
)

// A Kind is the kind of an event.
type Kind string

// The kinds of events.
const (
	Waits         Kind = "waits"          // a call found the lock taken and waits for it
	Acquired      Kind = "acquired"       // a call got the lock
	Failed        Kind = "failed"         // a call did not get the lock: see Event.Outcome
	FailedOpen    Kind = "failed_open"    // a call continues without the lock (lockmw.WithFailOpen)
	RenewalFailed Kind = "renewal_failed" // the watchdog could not renew the lease; only the first failure in a row
	Lost          Kind = "lost"           // a hold ended before it was released: its lease expired, or the lock was taken away
	Released      Kind = "released"       // a hold was released
	Forced        Kind = "forced"         // an operator released a hold by force (Recorder.ForceUnlocked)
)

// isFrequent reports whether events of the kind are dropped before others.
func (k Kind) isFrequent() bool { return k == Acquired || k == Released }

// An Event is something that happened to a lock. Fields that do not apply to its kind are zero.
type Event struct {
	At      time.Time     // by the clock of the process, to the microsecond; at most the time at which Redis stored it
	Kind    Kind          // what happened
	Process string        // the process that recorded the event, host:pid: the beginning of lockmw.Holder.Process
	Key     string        // as given to Lock
	Op      string        // lock, try_lock, lead or once
	Mode    string        // exclusive, fair, read, write or permit
	Label   string        // label of the call (lockmw.WithLabel)
	Token   int64         // fencing token of the hold
	Waited  time.Duration // how long the call waited, once it got the lock or failed
	Held    time.Duration // how long the hold lasted, once it ended

	Contended bool // Acquired: the call had to wait

	Outcome string // Failed: not_acquired, timeout, deadlock, canceled or error
	Err     string // why a call failed, a renewal failed or a hold was lost
	Behind  Behind // Waits: the holder that the call waits for; Forced: the holder that lost its hold
	By      string // Forced: the operator, or "page" or "command" if the name is unknown
	Dropped int    // with the last event of an entry: how many further events were dropped
}

// Behind describes the holder that a call waits for, and the position of the call in the queue.
type Behind struct {
	Process  string // host, process id and a random part
	Label    string // label of the holder (lockmw.WithLabel)
	Token    int64  // fencing token of the holder
	Position int    // 1 is the next; 0 if unknown
}

// A line is an event as stored in the stream.
type line struct {
	At        int64   `json:"at_us"` // since 1970
	Kind      Kind    `json:"event"`
	Key       string  `json:"key,omitempty"`
	KeyBytes  string  `json:"key_base64,omitempty"` // instead of key if that is not UTF-8
	Op        string  `json:"op,omitempty"`
	Mode      string  `json:"mode,omitempty"`
	Label     string  `json:"label,omitempty"`
	Token     int64   `json:"token,omitempty"`
	WaitedMS  float64 `json:"waited_ms,omitempty"`
	HeldMS    float64 `json:"held_ms,omitempty"`
	Contended bool    `json:"contended,omitempty"`
	Outcome   string  `json:"outcome,omitempty"`
	Err       string  `json:"error,omitempty"`

	BehindProcess string `json:"behind_process,omitempty"`
	BehindLabel   string `json:"behind_label,omitempty"`
	BehindToken   int64  `json:"behind_token,omitempty"`
	Position      int    `json:"position,omitempty"`
	By            string `json:"by,omitempty"`
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func fromMillis(ms float64) time.Duration { return time.Duration(ms*1000) * time.Microsecond }

// encode returns events as they are stored in the stream.
func encode(events []Event) string {
	var b strings.Builder
	lines := json.NewEncoder(&b)
	for i := range events {
		e := &events[i]
		l := line{
			At: e.At.UnixMicro(), Kind: e.Kind, Key: e.Key, Op: e.Op, Mode: e.Mode, Label: e.Label, Token: e.Token,
			WaitedMS: millis(e.Waited), HeldMS: millis(e.Held), Contended: e.Contended, Outcome: e.Outcome, Err: e.Err,
			BehindProcess: e.Behind.Process, BehindLabel: e.Behind.Label, BehindToken: e.Behind.Token, Position: e.Behind.Position,
			By: e.By,
		}
		if !utf8.ValidString(e.Key) {
			l.Key, l.KeyBytes = "", base64.StdEncoding.EncodeToString([]byte(e.Key))
		}
		_ = lines.Encode(&l) // cannot fail: strings and numbers, into memory
	}
	return b.String()
}

// decode is the reverse of encode. It skips lines that it does not understand, because newer versions may write other ones.
func decode(text, process string, dropped int) (events []Event) {
	for text := range strings.Lines(text) {
		var l line
		if json.Unmarshal([]byte(text), &l) != nil || l.Kind == "" {
			continue
		}
		e := Event{
			At: core.Instant(l.At, time.Microsecond), Kind: l.Kind, Process: process, Key: l.Key, Op: l.Op, Mode: l.Mode, Label: l.Label, Token: l.Token,
			Waited: fromMillis(l.WaitedMS), Held: fromMillis(l.HeldMS), Contended: l.Contended, Outcome: l.Outcome, Err: l.Err,
			Behind: Behind{Process: l.BehindProcess, Label: l.BehindLabel, Token: l.BehindToken, Position: l.Position},
			By:     l.By,
		}
		if key, err := base64.StdEncoding.DecodeString(l.KeyBytes); err == nil && l.KeyBytes != "" {
			e.Key = string(key)
		}
		events = append(events, e)
	}
	if n := len(events); n > 0 {
		events[n-1].Dropped = dropped
	}
	return events
}
