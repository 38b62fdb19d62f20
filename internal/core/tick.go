package core

import (
	"context"
	"time"
)

// A Tick is an instant at which a job is to run once (rule 20 of docs/protocol.md).
type Tick struct {
	At     time.Time     // counted in whole milliseconds
	Within time.Duration // how far from it a run may begin, on the clock of the server
	Keep   time.Duration // how long the server keeps the record that the tick was begun or run
}

// A TickAnswer tells a hold whether to run a tick.
type TickAnswer int8

// The answers.
const (
	TickBegun  TickAnswer = iota // the holder is to run it
	TickRan                      // it was already run
	TickOff                      // it is too far from the time of the server
	TickFailed                   // it was begun twice, and neither run was completed
)

// A TickHold is a Hold with a record of the ticks of its key.
type TickHold interface {
	Hold
	// BeginTick asks whether the holder is to run a tick; if so, it counts the tick as begun. It also returns the server's time.
	// While there is no answer, or too few replicas have acknowledged it, it retries until ctx ends. The error is ErrLost if the
	// hold has ended.
	BeginTick(ctx context.Context, t Tick) (TickAnswer, time.Time, error)
	// MarkTick records the completed run of a tick that BeginTick has begun. The hold may have ended. While there is no answer,
	// or too few replicas have the mark, it retries until ctx ends. It reports whether another hold has begun the tick since.
	MarkTick(ctx context.Context, t Tick) (again bool, err error)
}
