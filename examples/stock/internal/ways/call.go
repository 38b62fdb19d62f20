package ways

import (
	"context"
	"errors"
	"time"
)

// A Call is one click on "buy".
type Call struct {
	User, Item string
	Key        string        // the idempotency key of the order, which all clicks of the user on the item share
	Patience   time.Duration // how long it waits for a lock or retries
	Nested     bool          // takes the lock again while it holds it
	LosesReply bool          // the reply to its first try to take a lock is lost on the way
	StopAt     Point         // where a fault script stops it; "": nowhere

	// Stop is called at StopAt. It returns when the call may continue, or returns the error of ctx.
	Stop func(ctx context.Context) error

	Receipt  string // of the order; set by ways with idempotency keys
	Replayed bool   // the receipt is that of an earlier click

	retries int
}

// A Point is a place in the code of a way at which a fault script may stop a call.
type Point string

// The points.
const (
	Acquired Point = "acquired" // it holds the lock and has done nothing yet
	Busy     Point = "busy"     // it has found the lock taken and will retry
	Read     Point = "read"     // it has read the stock and decided to buy
	Sent     Point = "sent"     // its write is on the way to the database
	Written  Point = "written"  // its order is stored, and it still holds the lock
	Checked  Point = "checked"  // it has checked that the lock is its own and will delete it
	Unlocked Point = "unlocked" // it has released the lock and will commit
	Reserved Point = "reserved" // only Redis has counted it so far
	Recorded Point = "recorded" // its answer is recorded and not sent yet
	Taken    Point = "taken"    // a worker has begun to store its order
)

// at stops the call if StopAt is p. It stops there only once.
func (c *Call) at(ctx context.Context, p Point) error {
	if c.StopAt != p {
		return nil
	}
	c.StopAt = ""
	return c.Stop(ctx)
}

// send is called just before a write. It asks Err whether the lock is still held: when a paused process resumes, Done, which is what
// database/sql looks at, may close half a second later.
//
// If StopAt is Sent, the call stops. Its context does not end with ctx, because a statement on its way cannot be recalled.
func (c *Call) send(ctx context.Context) (context.Context, error) {
	if err := ctx.Err(); err != nil {
		return ctx, err
	}
	if c.StopAt != Sent {
		return ctx, nil
	}
	ctx = context.WithoutCancel(ctx)
	return ctx, c.at(ctx, Sent)
}

// retried counts a failed try.
func (c *Call) retried() { c.retries++ }

// Retries returns the number of retries.
func (c *Call) Retries() int { return c.retries }

// Reasons why a call ends without an order.
var (
	ErrSoldOut = errors.New("sold out")
	ErrSecond  = errors.New("this user has ordered already")
	ErrBusy    = errors.New("the lock is busy")
	ErrLost    = errors.New("the lock was lost")
	ErrUnknown = errors.New("the outcome of an earlier click is unknown")
	ErrNotKept = errors.New("the order is stored, but its receipt was not kept")
)
