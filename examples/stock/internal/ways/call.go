package ways

import (
	"context"
	"errors"
	"time"
)

// A Call is one click on "buy".
type Call struct {
	User, Item string
	Patience   time.Duration // how long it waits for a lock, or tries
	Nested     bool          // takes the lock once more while it holds it
	LosesReply bool          // the reply to its first try to take a lock is lost on the way
	StopAt     Point         // where a fault script stops it; "" is nowhere

	// Stop is called there. It returns when the call may go on, or with the error of ctx.
	Stop func(ctx context.Context) error

	retries int
}

// A Point is a place in the code of a way at which a fault script may stop a call.
type Point string

// The points.
const (
	Acquired Point = "acquired" // it has the lock, and has done nothing yet
	Busy     Point = "busy"     // it has found the lock taken, and is going to try again
	Read     Point = "read"     // it has read the stock, and decided to buy
	Sent     Point = "sent"     // its write is on the way to the database
	Written  Point = "written"  // its order is stored, and it still has the lock
	Checked  Point = "checked"  // it has seen that the lock is its own, and is going to delete it
	Unlocked Point = "unlocked" // it has released the lock, and is going to commit
	Reserved Point = "reserved" // Redis has counted it, and nobody else knows of it yet
	Taken    Point = "taken"    // a worker has begun to store its order
)

// at stops the call, if a script wants it stopped here. It stops there once.
func (c *Call) at(ctx context.Context, p Point) error {
	if c.StopAt != p {
		return nil
	}
	c.StopAt = ""
	return c.Stop(ctx)
}

// send is at Sent. A statement that is on its way is not called back when its sender's context ends.
func (c *Call) send(ctx context.Context) (context.Context, error) {
	if c.StopAt != Sent {
		return ctx, nil
	}
	return context.WithoutCancel(ctx), c.at(ctx, Sent)
}

// retried counts a try that was in vain.
func (c *Call) retried() { c.retries++ }

// Retries returns how often the call had to try again.
func (c *Call) Retries() int { return c.retries }

// Why a call does not end in an order.
var (
	ErrSoldOut = errors.New("sold out")
	ErrSecond  = errors.New("this user has ordered already")
	ErrBusy    = errors.New("somebody else has the lock")
	ErrLost    = errors.New("the lock was lost")
)
