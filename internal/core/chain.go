package core

import (
	"context"
	"time"
)

// ChainKey is the key under which the context of a hold has its Chain.
type ChainKey struct{}

// A Chain is the holds that a context has.
type Chain interface {
	// Live returns those that are not over, the innermost first.
	Live() []Held
	// Within returns the chain without the holds that are outside of scope.
	Within(scope Scope) Chain
}

// A Held is a hold of a context.
type Held struct {
	Hold       Hold
	Key, Label string
	Until      time.Time // when the call's own maximum hold is over; zero: never
}

// A Standing is what others may want to know of a hold that is in their way.
type Standing struct {
	Lease string // its id, which is used once, and shared by the callers of a process that share the lease
	// Granted orders holds by when they were granted: about that time in microseconds, by the clock of the server.
	Granted int64
	Since   time.Time
	Until   time.Time // when it ends by itself; zero: it is renewed
	Over    bool
}

// A StandingHold is a Hold that others may wait for.
type StandingHold interface {
	Hold
	Standing() Standing
}

// WaitEndKey is the key under which a context says when a wait with it will be cancelled, though it has no deadline: a
// time.Time.
type WaitEndKey struct{}

// WaitEnd returns when a wait ends that ends by itself at until: then, or earlier with its context. Zero is never.
func WaitEnd(ctx context.Context, until time.Time) time.Time {
	earlier := func(t time.Time) {
		if until.IsZero() || t.Before(until) {
			until = t
		}
	}
	if deadline, ok := ctx.Deadline(); ok {
		earlier(deadline)
	}
	if end, ok := ctx.Value(WaitEndKey{}).(time.Time); ok {
		earlier(end)
	}
	return until
}
