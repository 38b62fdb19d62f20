// Package shop is a process that sells over HTTP in one way, and the handle by which another one runs it.
package shop

import (
	"time"

	"github.com/lockmw/go/examples/stock/internal/ways"
)

// A Spec is what a shop's process is started with.
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
	Why     string `json:"why,omitempty"` // the error, of a call that failed
}

// A Result says what became of a call.
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

// A report is what a shop's process tells the one that has started it.
type report struct {
	URL     string `json:"url,omitempty"`     // it is open
	Stopped string `json:"stopped,omitempty"` // the call of this user has stopped
	Err     string `json:"err,omitempty"`     // it could not open
}

// A command is what a shop's process is told.
type command struct {
	GoOn string `json:"go_on"` // lets the call of this user go on
}
