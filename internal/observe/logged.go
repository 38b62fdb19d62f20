package observe

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// LoggerOf returns the logger of a Locker that has a method Logger, and otherwise the default one.
func LoggerOf(locker any) *slog.Logger {
	if l, ok := locker.(interface{ Logger() *slog.Logger }); ok {
		if logger := l.Logger(); logger != nil {
			return logger
		}
	}
	return slog.Default()
}

// A Call is the context of a call for a lock by a middleware, which logs it if it fails, unless an observer did.
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

// String is for the printing of contexts.
func (c *Call) String() string { return "Call" }

// Logged reports whether an observer has taken care of the line about the call.
func (c *Call) Logged() bool { return c.logged.Load() }

// SetLogged says that an observer has taken care of the line about the call that ctx is of: it was written, or is
// not to be written again so soon.
func SetLogged(ctx context.Context) {
	if c, ok := ctx.Value(callKey{}).(*Call); ok {
		c.logged.Store(true)
	}
}
