// Package shop runs shops: processes that sell over HTTP in one way.
package shop

import (
	"time"

	"github.com/lockmw/go/examples/stock/internal/ways"
)

// A Spec configures a shop's process.
type Spec struct {
	Place ways.Place
	Way   string // its name
}

const keyHeader = "Idempotency-Key"

// An Order is the body of a request.
type Order struct {
	Item       string        `json:"item"`
	User       string        `json:"user"`
	Patience   time.Duration `json:"patience"`
	Nested     bool          `json:"nested,omitempty"`
	LosesReply bool          `json:"loses_reply,omitempty"`
	StopAt     ways.Point    `json:"stop_at,omitempty"`
}

// Key is the idempotency key, which all clicks of a user on an item share. The header Idempotency-Key contains it.
func (o *Order) Key() string { return o.Item + "/" + o.User }

// An Answer is the body of the response. The status is 201, 409, 503 or 500.
type Answer struct {
	Result  Result `json:"result"`
	Retries int    `json:"retries"`
	Why     string `json:"why,omitempty"` // the error of a failed call

	// Only ways with idempotency keys have these.
	Receipt  string `json:"receipt,omitempty"`
	Replayed bool   `json:"replayed,omitempty"` // the receipt is that of an earlier click
}

// A Result is the outcome of a call.
type Result string

// The results.
const (
	Sold    Result = "sold"
	SoldOut Result = "sold out"
	Second  Result = "second order"
	Busy    Result = "busy"
	Lost    Result = "lock lost"
	Unknown Result = "unknown outcome"  // of an earlier click with the same key
	NotKept Result = "receipt not kept" // the order is stored
	Failed  Result = "failed"
)

// A report is a message from a shop's process to its parent.
type report struct {
	URL     string `json:"url,omitempty"`     // the shop is open at this URL
	Stopped string `json:"stopped,omitempty"` // the call of this user has stopped
	Err     string `json:"err,omitempty"`     // the shop could not open
}

// A command is a message to a shop's process.
type command struct {
	GoOn string `json:"go_on"` // resumes the call of this user
}

// Receipts detects contradicting answers. The zero value is ready to use, by one goroutine at a time.
type Receipts struct{ first map[string]string }

// Contradicts reports whether the answer to an order with this key has another receipt than the first answer that had one.
func (r *Receipts) Contradicts(key string, a Answer) bool {
	if a.Receipt == "" {
		return false
	}
	if r.first == nil {
		r.first = make(map[string]string)
	}
	if r.First(key) == "" {
		r.first[key] = a.Receipt
	}
	return r.First(key) != a.Receipt
}

// First returns the first receipt for an order with this key, or "" if there was none.
func (r *Receipts) First(key string) string { return r.first[key] }
