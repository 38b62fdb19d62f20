package cronmw

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/lockmw/go/lockmw"
)

var (
	// ErrNoNext means that the schedule has no further time, such as February 30.
	ErrNoNext = errors.New("cronmw: the schedule has no further time")
	// ErrConstantDelay means that the schedule is a cron.ConstantDelaySchedule, such as "@every 1h". It counts from the start of each
	// replica, so that replicas would run the job at different times. Use lockmw.Once with lockmw.Every.
	ErrConstantDelay = errors.New("cronmw: a constant delay has other times in each replica: use lockmw.Once with lockmw.Every")
	// ErrNotDue means that a cron.Cron has started the job although its schedule has had no time for a minute, or for the duration of
	// Within. Another wrapper has delayed the job, or the Cron uses another time zone than the schedule: begin that with CRON_TZ.
	ErrNotDue = errors.New("cronmw: the schedule has had no time lately")
)

// Done receives the results of each time: whether the job ran in this replica, and its error or the reason why the outcome is
// uncertain. See lockmw.Once.
type Done func(at time.Time, ran bool, err error)

// defaultWithin is how late a tick may begin, if that is less than half of the time to the next tick.
const defaultWithin = time.Minute

// Within returns the schedule with another limit of how late a run may begin, and how long the other replicas wait for it: see
// lockmw.Tick. Use it for a job that takes longer than a minute. d must be above 0, and should be at most half of the time between
// two ticks. It may be at most 24 h; lockmw.Once returns ErrInvalidOption otherwise.
func Within(d time.Duration, schedule cron.Schedule) cron.Schedule { return limited{schedule, d} }

type limited struct {
	cron.Schedule
	within time.Duration
}

// tick returns the tick of a time.
func tick(schedule cron.Schedule, at time.Time) lockmw.Tick {
	t := lockmw.At(at)
	if l, ok := schedule.(limited); ok {
		t.Within = l.within
	} else if half := schedule.Next(at).Sub(at) / 2; half > 0 && half < defaultWithin {
		t.Within = half
	}
	return t
}

// latest returns the last time of the schedule that is not after now; zero if it had none for the longest time that a tick is due.
func latest(schedule cron.Schedule, now time.Time) (at time.Time) {
	longest := defaultWithin
	if l, ok := schedule.(limited); ok {
		longest = l.within
	}
	for t := schedule.Next(now.Add(-longest)); !t.IsZero() && !t.After(now); t = schedule.Next(t) {
		at = t
	}
	return at
}

// check refuses what would fail at each time: arguments that are nil, a Within without time, a schedule whose times differ from
// replica to replica, and what Once refuses before it asks the server, which is the case for a context that has ended.
func check(ctx context.Context, locks lockmw.Locker, key string, schedule cron.Schedule, job func(context.Context) error, done Done,
	opts []lockmw.Option,
) error {
	inner := schedule
	if l, ok := schedule.(limited); ok {
		if l.within <= 0 {
			return fmt.Errorf("cronmw: %w: Within(%v) leaves no time for a run", lockmw.ErrInvalidOption, l.within)
		}
		inner = l.Schedule
	}
	if inner == nil || job == nil || done == nil {
		return fmt.Errorf("cronmw: %w: the schedule, the job or done is nil", lockmw.ErrInvalidOption)
	}
	if _, constant := inner.(cron.ConstantDelaySchedule); constant {
		return ErrConstantDelay
	}
	at := schedule.Next(time.Now())
	if at.IsZero() {
		return nil // nothing will run
	}
	ended, end := context.WithCancel(ctx)
	end()
	_, err := lockmw.Once(ended, locks, key, tick(schedule, at), job, opts...)
	if errors.Is(err, lockmw.ErrInvalidOption) || errors.Is(err, lockmw.ErrInvalidKey) {
		return err
	}
	return nil
}
