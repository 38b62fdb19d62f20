package idempotency

import (
	"context"
	"time"
)

// A Store keeps the records of keys. Records of a Client without a Store are in its Redis. A Store is safe for concurrent use.
// Its methods never change a record of another run than the given one, and a repeated execution of a method does no harm.
type Store interface {
	// Look reads a record. If there is none, the State is None.
	Look(ctx context.Context, key string) (Record, error)
	// Begin opens the record for a run. It returns the record as it is then: it was opened if its State is Open and its Run is
	// that of the claim. Claim says when it is not. An error may mean that the record was opened nevertheless.
	Begin(ctx context.Context, c Claim) (Record, error)
	// End ends a run. It reports false, and changes nothing, if the record is not open for that run. It reports true if the
	// run has ended in the same way, and with the same answer, before.
	End(ctx context.Context, e End) (bool, error)
	// Void makes a run void that has not begun to work: its record is no longer open, and a Begin of the run that arrives later
	// returns ErrSuperseded.
	Void(ctx context.Context, key, run string) error
}

// A Claim asks for the right to run the work of a key.
type Claim struct {
	Key         string // Key.LockKey
	Run         string // 128 random bits in hex digits
	Token       int64  // fencing token of the lock; an open run with a greater one is not replaced
	Fingerprint Fingerprint
	// Over is whether to replace an open run that left no outcome. Begin refuses that if MaxSilent runs have never
	// returned.
	Over      bool
	MaxSilent int
	TTL       time.Duration // how long the record is kept from now on, if it is opened
}

// A State is the state of a record.
type State int8

// The states. Begin opens a record in state None, and in state Open if the claim permits that.
const (
	None      State = iota // no run is open; a forgotten run leaves this state
	Open                   // a run has begun, and left no outcome so far
	Committed              // the run has committed its transaction, but left no answer
	Done                   // the answer is recorded
)

// String returns "none", "open", "committed" or "done".
func (s State) String() string { return [...]string{"none", "open", "committed", "done"}[s] }

// A Record is what a Store knows of a key.
type Record struct {
	State       State
	Fingerprint Fingerprint // of the request; not valid in state None
	Run         string      // that has begun or is done
	Token       int64       // of the run
	Earlier     int         // runs before this one that left no outcome
	Silent      int         // how many of these never returned
	Returned    bool        // the open run has returned, and its outcome is unknown
	Began       time.Time
	Answer      []byte // in state Done
}

// An Outcome is how a run ends.
type Outcome int8

// The outcomes.
const (
	Keep   Outcome = iota // record the answer
	Forget                // the run did nothing: the next one is like the first
	Leave                 // the outcome is unknown: the record stays open
)

// An End ends a run.
type End struct {
	Key     string
	Run     string
	Outcome Outcome
	Status  int           // with Keep: the HTTP status of the answer, 0 if it is not of HTTP
	Answer  []byte        // with Keep
	TTL     time.Duration // with Keep: how long the record is kept from now on
}
