package core

import (
	"context"
	"time"
)

// A RecordClaim asks for the right to run the work of a key (rule 28 of docs/protocol.md).
type RecordClaim struct {
	Run         string // 128 random bits in hex digits
	Fingerprint string // of the request
	Over        bool   // replace an open run that left no outcome
	MaxSilent   int    // … unless that many runs have never returned
	TTL         time.Duration
}

// A RecordState is the state of a record.
type RecordState int8

// The states.
const (
	NoRecord RecordState = iota // no run is open
	RecordOpen
	RecordDone
)

// A Record says whether the work of a key was done.
type Record struct {
	State       RecordState
	Run         string
	Token       int64 // of the run
	Fingerprint string
	Earlier     int  // runs before this one that left no outcome
	Silent      int  // how many of these never returned
	Returned    bool // the open run has returned, and its outcome is unknown
	Began       time.Time
	ID          string // of the run's hold
	Ended       time.Time
	Status      int // of the answer
	Answer      []byte
}

// A SettledError is the error of an acquire that took no lock, because the record of the key decides what the call gets.
type SettledError struct{ Record *Record }

// Error implements error.
func (*SettledError) Error() string {
	return "lockmw: the record of the key has decided what the call gets"
}

// A RecordEnd ends a run.
type RecordEnd struct {
	Run     string
	Outcome string        // "keep", "forget", "leave" or "void"
	TTL     time.Duration // to keep an answer
	Status  int           // of the answer
	Answer  []byte
}

// RecordLocks are Locks that keep records next to the locks. Acquire of a request with a Record may fail with a *SettledError.
type RecordLocks interface {
	Locks
	// EndRecord ends a run whose lock has ended. It reports false if the record is not the run's any more. It retries until ctx ends.
	EndRecord(ctx context.Context, key string, end *RecordEnd) (ok bool, err error)
}

// A RecordHold is a hold of a request with a Record.
type RecordHold interface {
	Hold
	// Opened reports whether the record was opened together with the grant, and how many runs before left no outcome. Then the run
	// begins to work. A hold whose run does not begin makes the run void when it ends.
	Opened() (earlier int, ok bool)
	// BeginRecord opens the record, and returns it. It was opened if it is open for the run of the claim. The error is ErrLost if
	// the hold has ended, or a later run has begun. It retries until ctx ends.
	BeginRecord(ctx context.Context, claim *RecordClaim) (*Record, error)
	// EndWith makes Release end a run as well. Recorded returns, after Release, whether the record was the run's; the error says that
	// this is unknown.
	EndWith(end *RecordEnd)
	Recorded() (ok bool, err error)
}
