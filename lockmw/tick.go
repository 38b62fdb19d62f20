package lockmw

import (
	"fmt"
	"time"

	"github.com/lockmw/go/internal/core"
)

// A Tick is an instant at which a job is to run: see Once.
type Tick struct {
	// At is the nominal instant, such as 12:00:00. It has to be the same in all replicas, which tells them that it is
	// the same tick: not the time at which each of them calls, but the one that the job is scheduled for. What is less
	// than a millisecond is cut off.
	At time.Time
	// Within is how far from At a run may begin, sooner or later, by the clock of the Redis server; from 1 ms to 24 h.
	// So it says by how much the clock of a replica may be off, and for how long a replica waits for one that may still
	// crash. Default: 1 min, but it should be at most half of the time between two ticks. WithQuarantine has to be longer
	// than twice that, or Once returns ErrInvalidOption.
	Within time.Duration
}

const (
	defaultWithin = time.Minute
	minWithin     = time.Millisecond
	maxWithin     = maxLease
	tooShort      = time.Duration(-1) // is the Within of a period that is
)

// At returns the tick of a job that is scheduled for t, with the default Within. A cron job that is due at 02:30 passes that
// instant, as its scheduler computed it, not the time of its call: docs/scheduled.md has a recipe for cron expressions.
func At(t time.Time) Tick { return Tick{At: t} }

// Every returns the tick of a job that runs once in each period: the multiple of the period, since the zero time, that
// is nearest to now. Within is half the period, and at most 1 min. For a period of 1 h that is the full hour (UTC), if
// it is called within a minute of it. A job that runs at another time, such as daily at 02:30, needs At. A period has to be at
// least 2 ms: Once refuses the tick of a shorter one.
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
		return core.Tick{}, fmt.Errorf("%w: a tick without an instant", ErrInvalidOption)
	case t.Within == 0:
		t.Within = defaultWithin
	case t.Within == tooShort:
		return core.Tick{}, fmt.Errorf("%w: the period of Every is too short, must be at least %v", ErrInvalidOption, 2*minWithin)
	case t.Within < minWithin || t.Within > maxWithin:
		return core.Tick{}, fmt.Errorf("%w: Within of a tick is %v, must be from %v to %v", ErrInvalidOption, t.Within, minWithin, maxWithin)
	}
	return core.Tick{At: t.At.Truncate(time.Millisecond), Within: t.Within}, nil
}

// A ClockError says that a tick of Once is not near the time of the server: the clock of this replica is off, or the
// tick was computed wrongly, or the call came too late. It wraps ErrClockOff.
type ClockError struct {
	Tick   time.Time     // as it was given, without what is less than a millisecond
	Server time.Time     // the server's time when Once was called
	Within time.Duration // how far from the tick it may be
}

// Error names the difference. A job that is not due at a multiple of its period needs At instead of Every.
func (e *ClockError) Error() string {
	than := "behind"
	if e.Difference() > 0 {
		than = "ahead of"
	}
	return fmt.Sprintf("%v, or this is not the time of the job: the tick %s is %v %s the server's clock, more than %v", ErrClockOff,
		e.Tick.UTC().Format(time.RFC3339Nano), e.Difference().Abs().Round(time.Millisecond), than, e.Within)
}

// Difference returns by how much the tick is ahead of the server's clock; it is negative if the tick is behind.
func (e *ClockError) Difference() time.Duration { return e.Tick.Sub(e.Server) }

// Unwrap returns ErrClockOff.
func (e *ClockError) Unwrap() error { return ErrClockOff }
