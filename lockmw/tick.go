package lockmw

import (
	"fmt"
	"time"

	"github.com/lockmw/go/internal/core"
)

// A Tick is an instant at which a scheduled job runs: see Once.
type Tick struct {
	// At is the instant for which the job is scheduled, such as 12:00:00, not the time of the call. It must be the same in all
	// replicas, because it identifies the tick. Fractions of a millisecond are cut off.
	At time.Time
	// Within is how far from At a run may begin, earlier or later, by the clock of the Redis server; from 1 ms to 24 h, default
	// 1 min. So the clock of a replica may be off by that much, and a replica waits that long for another one that may still
	// crash. It should be at most half the time between two ticks. WithQuarantine must be longer than twice Within, or Once
	// returns ErrInvalidOption.
	Within time.Duration
}

const (
	defaultWithin = time.Minute
	minWithin     = time.Millisecond
	maxWithin     = maxLease
	tooShort      = time.Duration(-1) // Within for a period that is too short
)

// At returns the tick of a job that is scheduled for t, with the default Within. For a cron job that is due at 02:30, t is that
// instant as its scheduler computed it, not the time of the call. docs/scheduled.md has a recipe for cron expressions.
func At(t time.Time) Tick { return Tick{At: t} }

// Every returns the tick of a job that runs once in each period. It is the multiple of the period, since the zero time, that is
// nearest to now: for 1 h, the nearest full hour (UTC). Within is half the period, and at most 1 min, so Once runs an hourly
// job only if it is called within a minute of the full hour. For a job at other times, such as daily at 02:30, use At. The
// period must be at least 2 ms: Once refuses the tick of a shorter one.
func Every(period time.Duration) Tick {
	t := Tick{At: time.Now().Round(period), Within: min(period/2, defaultWithin)}
	if period < 2*minWithin {
		t.Within = tooShort
	}
	return t
}

// check returns the tick with its defaults, or an error that wraps ErrInvalidOption.
func (t Tick) check() (core.Tick, error) {
	switch {
	case t.At.IsZero():
		return core.Tick{}, fmt.Errorf("%w: Tick.At is not set", ErrInvalidOption)
	case t.Within == 0:
		t.Within = defaultWithin
	case t.Within == tooShort:
		return core.Tick{}, fmt.Errorf("%w: the period of Every is too short, must be at least %v", ErrInvalidOption, 2*minWithin)
	case t.Within < minWithin || t.Within > maxWithin:
		return core.Tick{}, fmt.Errorf("%w: Tick.Within is %v, must be from %v to %v", ErrInvalidOption, t.Within, minWithin, maxWithin)
	}
	return core.Tick{At: t.At.Truncate(time.Millisecond), Within: t.Within}, nil
}

// A ClockError is the error of Once for a tick that is too far from the server's time: the clock of this replica is off, the tick
// was computed incorrectly, or the call came too late. It wraps ErrClockOff. It also occurs if Every is used for a job that is
// not due at a multiple of its period; such a job needs At.
type ClockError struct {
	Tick   time.Time     // Tick.At, to the millisecond
	Server time.Time     // the server's time when Once was called
	Within time.Duration // how far from Tick it may be
}

// Error returns the tick and its difference from the server's clock.
func (e *ClockError) Error() string {
	than := "behind"
	if e.Difference() > 0 {
		than = "ahead of"
	}
	return fmt.Sprintf("%v, or the job is not due now: the tick %s is %v %s the server's clock, more than %v", ErrClockOff,
		e.Tick.UTC().Format(time.RFC3339Nano), e.Difference().Abs().Round(time.Millisecond), than, e.Within)
}

// Difference returns how far the tick is ahead of the server's clock; it is negative if the tick is behind.
func (e *ClockError) Difference() time.Duration { return e.Tick.Sub(e.Server) }

// Unwrap returns ErrClockOff.
func (e *ClockError) Unwrap() error { return ErrClockOff }
