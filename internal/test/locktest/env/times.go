package env

import (
	"time"

	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/suite"
)

// Patience is how long a scenario waits for what must happen, before it gives up.
const Patience = time.Minute

// MinLease is the shortest that WithLease allows.
const MinLease = 100 * time.Millisecond

// Brief is a short wait, in which a server that is busy answers all the same.
func (e *Env) Brief() time.Duration { return e.Ample(250 * time.Millisecond) }

// Times of the engine that scenarios count with.
const (
	PollInterval = 750 * time.Millisecond
	BeatInterval = time.Second
	DeadAfter    = 4 * time.Second // a process that was not seen for so long is dead
	AcceptWindow = 3 * time.Second
	LocalPasses  = 32 // while another process waits
)

// Ample is how long a lease or a limit is to last within which something has to happen, such as a renewal: d in a
// bubble, whose time stands still while anything is done. In real time it is several times d. There a busy machine may
// let a process wait for seconds, and a hold that is lost then is rightly lost.
func (e *Env) Ample(d time.Duration) time.Duration {
	if e.Config.realTime() {
		return 5 * d
	}
	return d
}

// Fewer is how often a scenario repeats what it repeats n times in the full suite without the race detector.
func Fewer(n int) int {
	if race.Enabled || !suite.Full() {
		return n / 4
	}
	return n
}

// CallLimit is the time that a call is given where nothing is answered.
const CallLimit = 100 * time.Millisecond

// ClockStep is by how much a stepped clock is wrong.
const ClockStep = time.Minute
