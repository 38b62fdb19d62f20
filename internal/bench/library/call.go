package library

import (
	"context"
	"errors"
	"time"
)

// A Call asks for the work of a key to be done once.
type Call struct {
	Scope string // whose key it is
	ID    string // of IDSize characters
	Body  []byte // the request
}

// IDSize is the length of the ID of a Call: that of a UUID, which is all that fiber accepts.
const IDSize = 36

// Work does the work of a call, and returns its answer. Both are text. It is safe for concurrent use.
type Work func(Call) (answer []byte, err error)

// A Caller makes idempotent calls with one library, over its own connections. It is safe for concurrent use.
type Caller interface {
	// Call does the work of a key that is new, and returns its answer. For a key that was used before, it returns the answer
	// of the earlier call, or an error.
	Call(ctx context.Context, c Call) (answer []byte, err error)
	// Close releases the caller's resources, including its connections.
	Close() error
}

// kept is how long answers are kept, in all libraries: lockmw's default.
const kept = 24 * time.Hour

// errUnfinished means that an earlier call of the key left no answer so far.
var errUnfinished = errors.New("an earlier call of this key has not finished")
