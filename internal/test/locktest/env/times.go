package env

import (
	"time"

	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/suite"
)

// Patience limits how long a scenario waits for something that must happen.
const Patience = time.Minute

// MinLease is the shortest lease that WithLease accepts.
const MinLease = 100 * time.Millisecond

// Brief is a short wait in which a busy server still answers.
func (e *Env) Brief() time.Duration { return e.Ample(250 * time.Millisecond) }

// Times of the engine that scenarios rely on.
const (
	PollInterval = 750 * time.Millisecond
	BeatInterval = time.Second
	DeadAfter    = 4 * time.Second // a process that was not seen for this long is dead
	AcceptWindow = 3 * time.Second
	LocalPasses  = 32 // while another process waits
)

// Ample returns the length of a lease or limit within which something must happen, such as a renewal. In a bubble it is d,
// because time stands still during work. In real time it is several times d: a busy machine may delay a process for seconds,
// and losing a shorter lease would then be correct.
func (e *Env) Ample(d time.Duration) time.Duration {
	if e.Config.realTime() {
		return 5 * d
	}
	return d
}

// Fewer returns how many repetitions to run: n in the full suite without the race detector, otherwise fewer.
func Fewer(n int) int {
	if race.Enabled || !suite.Full() {
		return n / 4
	}
	return n
}

// CallLimit is the timeout of calls that receive no answer. A busy machine may delay the request for a part of it.
func (e *Env) CallLimit() time.Duration { return e.Ample(100 * time.Millisecond) }

// ClockStep is the error of a stepped clock.
const ClockStep = time.Minute
