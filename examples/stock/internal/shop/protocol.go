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

// An Order is the body of a request.
type Order struct {
	Item       string        `json:"item"`
	User       string        `json:"user"`
	Patience   time.Duration `json:"patience"`
	Nested     bool          `json:"nested,omitempty"`
	LosesReply bool          `json:"loses_reply,omitempty"`
	StopAt     ways.Point    `json:"stop_at,omitempty"`
}

// An Answer is the body of the response. The status is 201, 409, 503 or 500.
type Answer struct {
	Result  Result `json:"result"`
	Retries int    `json:"retries"`
	Why     string `json:"why,omitempty"` // the error of a failed call
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
