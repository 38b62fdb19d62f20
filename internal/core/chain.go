package core

import (
	"context"
	"time"
)

// ChainKey is the key under which the context of a hold has its Chain.
type ChainKey struct{}

// A Chain is the holds that a context carries.
type Chain interface {
	// Live returns the holds that have not ended, the innermost first.
	Live() []Held
	// Within returns the chain without the holds that are outside of scope.
	Within(scope Scope) Chain
}

// A Held is a hold that a context carries.
type Held struct {
	Hold       Hold
	Key, Label string
	Until      time.Time // when the call's own maximum hold ends; zero: never
}

// A HoldState describes a hold to calls that it blocks.
type HoldState struct {
	Lease string // its id, which is used once, and shared by the callers of a process that share the lease
	// Granted orders holds by the time of their grant. It is about that time in microseconds, on the clock of the server.
	Granted int64
	Since   time.Time
	Until   time.Time // when it ends by itself; zero: it is renewed
	Over    bool
}

// A BlockingHold is a Hold that other calls may wait for.
type BlockingHold interface {
	Hold
	State() HoldState
}

// WaitEndKey is the context key for the time, a time.Time, when a wait will be cancelled although its context has no deadline.
type WaitEndKey struct{}

// WaitEnd returns when a wait ends that would end by itself at until, and ends earlier with its context. Zero means never.
func WaitEnd(ctx context.Context, until time.Time) time.Time {
	deadline, _ := ctx.Deadline()
	end, _ := ctx.Value(WaitEndKey{}).(time.Time)
	return Earlier(until, Earlier(deadline, end))
}

// Earlier returns the earlier one of two times. Zero means never.
func Earlier(t, u time.Time) time.Time {
	if t.IsZero() || !u.IsZero() && u.Before(t) {
		return u
	}
	return t
}
