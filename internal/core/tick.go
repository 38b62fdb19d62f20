package core

import (
	"context"
	"time"
)

// A Tick is an instant at which a job is to run once (rule 20 of docs/protocol.md).
type Tick struct {
	At     time.Time     // counted in whole milliseconds
	Within time.Duration // how far from it a run may begin, by the clock of the server
	Keep   time.Duration // how long it is kept that the tick was begun, or run
}

// A TickAnswer says whether a hold is to run a tick.
type TickAnswer int8

// The answers.
const (
	TickBegun  TickAnswer = iota // the holder is to run it
	TickRan                      // it was run
	TickOff                      // it is not near the time of the server
	TickFailed                   // it was begun twice, and neither run has come to its end
)

// A TickHold is a Hold that knows which ticks were run. The ticks are those of its key.
type TickHold interface {
	Hold
	// BeginTick asks whether the holder is to run a tick, and counts it as begun if so. It also returns the time of
	// the server. Without an answer, or while too few replicas have it, it tries again until ctx ends. An error is ErrLost
	// if the hold has ended.
	BeginTick(ctx context.Context, t Tick) (TickAnswer, time.Time, error)
	// MarkTick notes that a tick was run which BeginTick let begin. The hold need not last that long. Without an
	// answer, or while too few replicas have the mark, it tries again until ctx ends. It reports whether another hold has begun the tick since.
	MarkTick(ctx context.Context, t Tick) (again bool, err error)
}
