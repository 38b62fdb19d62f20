package lockmw

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/option"
)

// Once runs a job in one of all replicas that call it for the same key and tick. It is for jobs that each replica starts by
// its own clock, such as cron jobs: see docs/scheduled.md.
//
//	ran, err := lockmw.Once(ctx, locks, "report:hourly", lockmw.Every(time.Hour), makeReport)
//
// ran reports whether run was called here. false without an error means that another replica has run the tick: Once has seen
// the record of a completed run, not just a busy lock. err is the result of run, or the reason why the outcome is uncertain.
//
// A replica holds the lock of the job while run runs. A tick that is due meanwhile waits. When run has returned, with or
// without an error, the tick is recorded as completed, and then the lock is released. That is also done if run returns early
// because ctx has ended, and before a panic continues.
//
// So no tick is run twice, with one exception: if a replica crashes in its run, or loses the lock, another replica that still
// waits runs the tick once more. If that run does not finish either, the tick is not started again: ErrUnfinished. Work that
// must never be done twice checks the fencing token (Hold.Token of FromContext).
//
// The context of run ends when the lock is lost, and with ctx. It does not end at Client.Shutdown, which waits for run.
//
// Once waits for a busy lock, and while Redis is unavailable, until tick.Within after the tick, by the clock of this process.
// Then it returns ErrBusy or ErrUnavailable, although another replica may have run the tick. It returns immediately if
// waiting does not help, as with NOPERM or a closed redis client. A missed tick is never run later. The clock of the Redis
// server decides whether the tick is near enough. If it is not, nothing runs, and the error wraps ErrClockOff and a
// *ClockError with the difference.
//
// The default lease is 10 s, or half of tick.Within if that is less, but at least 1 s. After a crash another replica runs the
// tick within the lease. No replica does if the crash was so late that the lease expires more than tick.Within after the tick.
//
// Errors other than those of run are *Error:
//   - If the lock is lost during run, the error wraps ErrLost and the error of run.
//   - If run has ended but its completion cannot be recorded, the error wraps ErrUnavailable or ErrWrongType. The lock stays
//     taken until tick.Within after the tick, so that no other replica runs it, unless Redis does not answer for so long that
//     the lease expires.
//   - Once returns ErrInvalidOption for WithWait, WithMinHold, WithMaxHold, WithFixedLease, WithFailOpen and WithPlace, which
//     have no effect as defaults of l. It also does for a Locker of read locks, for a semaphore, and for a ctx that holds the
//     key.
//   - Once returns errors.ErrUnsupported for a Locker that is not made of a Client or a Local, or does not pass the options on
//     to it.
//
// If Redis loses its data, or its clock is stepped, a tick may be run twice. With WithReplicas a tick is completed only when
// replicas acknowledge its record. Once retries that, and returns ErrUnavailable if they have not acknowledged it by
// tick.Within after the tick. WithQuarantine must be longer than twice tick.Within; otherwise Once returns ErrInvalidOption.
func Once(ctx context.Context, l Locker, key string, tick Tick, run func(context.Context) error, opts ...Option) (ran bool, err error) {
	if option.IsNil(l) || run == nil {
		return false, onceError(key, errNilArgument)
	}
	t, err := tick.check()
	if err == nil {
		err = refuse(opts, whyNotOnce)
	}
	if err != nil {
		return false, onceError(key, err)
	}
	lease := max(min(10*time.Second, t.Within/2), time.Second)
	now := time.Now()
	o := onceCall{
		locker: l, key: key, tick: t, run: run,
		opts:   slices.Concat([]Option{WithDefaults(WithLease(lease))}, opts, []Option{{kind: optOnce, duration: t.Within}}),
		called: now, ends: now.Add(min(max(t.At.Add(t.Within).Sub(now), 0), 2*t.Within)),
	}
	for {
		again, err := o.try(ctx)
		left := time.Until(o.ends)
		if left <= 0 && o.unavailable != nil && heardNothing(err) {
			err = o.unavailable
		}
		if !again || ctx.Err() != nil || left <= 0 {
			return o.ran, err
		}
		if errors.Is(err, ErrUnavailable) {
			o.unavailable = err
		}
		o.rest(ctx, left)
	}
}

// heardNothing reports whether a try ended before it had an answer from the server.
func heardNothing(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && errors.Is(err, ErrBusy) && len(e.Holders) == 0
}

func onceError(key string, err error) error { return &Error{Op: "once", Key: key, Err: err} }

// whyNotOnce says why a job cannot have an option.
var whyNotOnce = map[string]string{
	"WithWait":       "Once waits until its tick is no longer due",
	"WithMinHold":    "Once records which ticks were run",
	"WithMaxHold":    "another replica would run the tick again; give run's context a timeout",
	"WithFixedLease": "the lease of a job is renewed",
	"WithFailOpen":   "every replica would run the tick",
	"WithPlace":      "Once waits in one call",
}

// A onceCall is a call of Once.
type onceCall struct {
	locker      Locker
	key         string
	tick        core.Tick
	run         func(context.Context) error
	opts        []Option
	called      time.Time
	ends        time.Time // when the call stops waiting
	unavailable error     // the error of the last try during which Redis was unavailable
	ran         bool
	backoff
}

// try waits for the lock, and runs the tick if no other replica has. It reports whether to try again.
func (o *onceCall) try(ctx context.Context) (again bool, err error) {
	held, hold, err := o.locker.Lock(ctx, o.key, append(slices.Clip(o.opts), WithWait(max(time.Until(o.ends), 0)))...)
	if err != nil {
		return mayPass(err) || errors.Is(err, ErrBusy), err
	}
	ticks, ok := hold.lock.backend.(core.TickHold)
	if !ok || !hold.lock.req.Once {
		err := fmt.Errorf("the Locker is not made of a Client or a Local, or does not pass options on: %w", errors.ErrUnsupported)
		return false, onceError(o.key, errors.Join(err, hold.Unlock()))
	}
	tick := o.tick
	tick.Keep = 2*tick.Within + hold.lock.req.Lease
	var answer core.TickAnswer
	var now time.Time
	if held.Err() == nil {
		answer, now, err = o.begin(held, ticks, tick)
	}
	if err == nil && answer == core.TickBegun && held.Err() == nil {
		return false, o.perform(ctx, held, hold, tick, time.Now().Add(tick.At.Add(tick.Within).Sub(now)))
	}
	lost := hold.check()
	if lost == nil {
		lost = contextError(held) // an observer may have ended it
	}
	_ = hold.Unlock() // nothing has run
	switch {
	case err == nil && answer == core.TickRan:
		return false, nil
	case err == nil && answer == core.TickFailed:
		return false, onceError(o.key, ErrUnfinished)
	case err == nil && answer != core.TickBegun:
		return false, o.notDue(now)
	case ctx.Err() != nil:
		return false, onceError(o.key, contextError(ctx))
	case err == nil:
		err = lost
	}
	return mayPass(err) || errors.Is(err, ErrLost), onceError(o.key, err)
}

// mayPass reports whether err is a failure of the server that may pass.
func mayPass(err error) bool {
	return errors.Is(err, ErrUnavailable) && core.FaultOf(err) != core.Lasting
}

// begin asks the server whether to run the tick. It waits for the answer at least as long as a call that only tries.
func (o *onceCall) begin(held context.Context, ticks core.TickHold, tick core.Tick) (
	answer core.TickAnswer, now time.Time, err error,
) {
	ctx, cancel := context.WithTimeout(held, max(time.Until(o.ends), defaultUnlockTimeout))
	defer cancel()
	return ticks.BeginTick(ctx, tick)
}

// notDue returns the error for a tick that is too far from the server's time: it already was at the call, or the call had to
// wait for too long.
func (o *onceCall) notDue(now time.Time) error {
	late := ClockError{Tick: o.tick.At, Server: now.Add(-time.Since(o.called)), Within: o.tick.Within}
	switch {
	case late.Difference().Abs() > o.tick.Within:
		return onceError(o.key, &late)
	case o.unavailable != nil:
		return o.unavailable
	}
	e := &Error{Op: "once", Key: o.key, Waited: time.Since(o.called)}
	e.Err = fmt.Errorf("%w: when it became free, the tick was already %v ago", ErrBusy, now.Sub(o.tick.At).Round(time.Millisecond))
	return e
}

// perform runs the tick, records its completion and releases the lock. From dueUntil on no replica may run the tick.
func (o *onceCall) perform(ctx, held context.Context, hold *Hold, tick core.Tick, dueUntil time.Time) (err error) {
	o.ran = true
	defer func() {
		if lost := hold.check(); lost != nil { // the run may not have finished, so another replica may run the tick
			err = lossDuring(hold, hold.fail("once", lost), err)
		} else if failed := o.mark(ctx, hold, tick, dueUntil); failed != nil {
			err = lossDuring(hold, hold.fail("once", failed), err)
		}
		_ = hold.Unlock() // a failed release is no error: the run has ended, and its completion is recorded or err says that it is not
	}()
	return o.run(held)
}

// mark records that the tick was run. If it cannot, the lock stays taken for as long as another replica might run the tick.
func (o *onceCall) mark(ctx context.Context, hold *Hold, tick core.Tick, dueUntil time.Time) error {
	ticks, _ := hold.lock.backend.(core.TickHold)
	patience := hold.lock.locker.unlockTimeout
	mark, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(time.Until(dueUntil), patience))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(patience, cancel) })() // once ctx has ended, the caller waits for patience only
	again, err := ticks.MarkTick(mark, tick)
	switch {
	case err != nil:
		ticks.KeepTaken(time.Until(dueUntil) + time.Millisecond)
		return fmt.Errorf("the run has ended, but its completion could not be recorded: %w", err)
	case again:
		return fmt.Errorf("%w: the run had ended, but another replica started this tick before its completion was recorded", ErrLost)
	}
	return nil
}
