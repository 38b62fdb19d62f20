package verify

import (
	"encoding/json"
	"time"

	"github.com/lockmw/go/internal/judge"
)

// Orders and reports are also understood by other releases of this program, which Options.With may name. So a field keeps its
// name and meaning, and its absence means that nothing changes. An older process ends at an order that it does not know.

// A setup is the first order of a worker process.
type setup struct {
	Address  json.RawMessage // for Connect
	Prefix   string
	Lease    time.Duration
	Patience time.Duration // the longest wait of a call
	Replicas int           // lockmw.WithReplicas; 0: without

	SlottedKeys bool          // lockmw.WithSlottedKeys
	Cost        time.Duration // time of the server for one script
	Share       float64       // part of the server's time for this process
}

// An order is a later order of a worker process.
type order struct {
	Do    string        // one of the constants below
	N     int           // with hold and release: the number of the call; with loseReplies: how many
	Key   string        // with hold
	For   time.Duration // with hold: the longest wait; see delay and cost
	Lease time.Duration // with hold; 0: the usual one
}

// The orders to a worker process.
const (
	doWork        = "work"         // take locks at random
	doRest        = "rest"         // begin no more calls at random
	doHold        = "hold"         // take this key, and hold it
	doRelease     = "release"      // end a hold
	doCut         = "cut"          // break all connections, and refuse new ones
	doSilence     = "silence"      // lose all bytes in both directions
	doDelay       = "delay"        // delay answers by For
	doRestore     = "restore"      // end the disturbance
	doCost        = "cost"         // a script takes the server For
	doLoseReplies = "lose replies" // break connections instead of delivering the answer of a script
)

// A report is an event of a worker process: one of the judges', or one of the constants below. Calls of an order have negative
// numbers. Times are the machine's.
type report struct {
	judge.Report
	Kind    Kind             `json:",omitempty"`
	Queued  time.Duration    `json:",omitempty"` // when the server had queued the call; 0 if that is unknown
	Stalls  []judge.Interval `json:",omitempty"` // when the process stood still during the call, without overlaps
	Late    time.Duration    `json:",omitempty"` // with granted and failed: after the end of the wait; with ended: after the deadline
	Refused bool             `json:",omitempty"` // with wrong: the server refused a command, which is right while it changes
	Limited bool             `json:",omitempty"` // the wait of the call had a limit
	Wrote   []string         `json:",omitempty"` // keys that a script may write
	Scripts int              `json:",omitempty"` // sent since the last report with a number
}

// The events that no judge knows.
const (
	ready = "ready" // the worker is connected
	wrote = "wrote" // a script with these keys is about to be sent
	early = "early" // a hold was lost before its deadline
	wrong = "wrong" // an error that no call may return
)

// A Kind is a kind of lock.
type Kind string

// The kinds of locks that workers take.
const (
	Plain  Kind = "plain"
	Fair   Kind = "fair"
	Write  Kind = "write"
	Read   Kind = "read"
	Permit Kind = "permit"
)

// permits is the number of permits of the semaphore.
const permits = 3
