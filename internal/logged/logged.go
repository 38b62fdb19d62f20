// Package logged keeps an event from being logged twice: once by an observer, and once by the code that reports the event to it.
package logged

import (
	"context"
	"sync/atomic"
)

// A Call is the context of a call for a lock. Its owner logs how the call ended, unless an observer has done so.
type Call struct {
	context.Context
	logged atomic.Bool
}

type callKey struct{}

// NewCall returns the context for a call.
func NewCall(ctx context.Context) *Call { return &Call{Context: ctx} }

// Value implements context.Context.
func (c *Call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// String implements fmt.Stringer, for code that prints contexts.
func (c *Call) String() string { return "Call" }

// Logged reports whether an observer has taken over the log line for the call.
func (c *Call) Logged() bool { return c.logged.Load() }

// Set records that an observer has taken over the log line for the call of ctx: it has written the line, or has left it out
// because it wrote a similar one recently.
func Set(ctx context.Context) {
	if c, ok := ctx.Value(callKey{}).(*Call); ok {
		c.logged.Store(true)
	}
}
