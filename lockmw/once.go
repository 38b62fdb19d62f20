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

// Once runs a job in one of all the replicas that call it for the same key and tick. It is for jobs that each replica
// starts by its own clock, such as cron's.
//
//	ran, err := lockmw.Once(ctx, locks, "report:hourly", lockmw.Every(time.Hour), makeReport)
//
// It reports whether run was called here. false without an error says that another replica has run the tick, which is
// known by a mark that it has left: not by a lock that is busy. err is what run returned, or why there is no certainty.
//
// One replica has the lock of the job while it runs; a tick that is due meanwhile waits. When run has returned, whatever
// it returned, the tick is marked, and the lock is released after that. So no tick is run twice, with one exception: if
// a replica dies in its run, or loses the lock, one of those that still wait runs the tick once more. A tick that was
// begun twice so is not begun again: ErrUnfinished. The context of run ends when the lock is lost, and with ctx; it
// does not end at Client.Shutdown, which waits for run. The tick is also marked if run returns early because ctx has ended,
// and before a panic goes on. Work that must not be done twice, whatever happens, checks the fencing token (Hold.Token,
// by FromContext).
//
// Once waits for a busy lock, and for a Redis that is unavailable, until the tick is tick.Within ago, by the clock of
// this process: then it returns ErrBusy or ErrUnavailable. It does not wait for what waiting does not change, such as NOPERM or a
// redis client that is closed. The tick may have been run nevertheless. Once does not make
// up for ticks that were missed. The clock of the Redis server decides whether the tick is near enough; if not, the
// error wraps ErrClockOff and a *ClockError that names the difference, and nothing runs.
//
// The lease is 10 s by default, and half of tick.Within if that is less, but at least 1 s. After a crash another replica
// runs the tick within the lease. If the replica died so late that the lease ends after the tick is Within ago, none does.
//
// An error is an *Error, but for what run returned. If the lock is lost while run runs, it wraps ErrLost, and also what
// run returned. If the run has ended and cannot be marked, it wraps ErrUnavailable or ErrWrongType; the lock then stays
// taken until the tick is Within ago, so that nobody runs it again, unless Redis does not answer for so long that the
// lease ends. Once returns ErrInvalidOption for WithWait, WithMinHold, WithMaxHold, WithFixedLease, WithFailOpen and
// WithPlace (as defaults of l they have no effect), for a Locker that reads, for a semaphore, and for a ctx that holds the
// key. It returns errors.ErrUnsupported for a Locker that is not made of a Client or a Local, or does not pass the options
// on to it.
//
// What Redis knows of ticks gets lost with its data, and is wrong if its clock is stepped: then a tick may be run twice. With
// WithReplicas the mark has to be acknowledged by replicas: until then Once writes it again, and it returns ErrUnavailable if
// they have not by the time the tick is Within ago. WithQuarantine has to be longer than twice tick.Within, or Once returns
// ErrInvalidOption.
func Once(ctx context.Context, l Locker, key string, tick Tick, run func(context.Context) error, opts ...Option) (ran bool, err error) {
	if option.IsNil(l) || run == nil {
		return false, onceError(key, errNilArgument)
	}
	t, err := tick.check()
	if err == nil {
		err = checkOnce(opts)
	}
	if err != nil {
		return false, onceError(key, err)
	}
	lease := max(min(10*time.Second, t.Within/2), time.Second)
	now := time.Now()
	o := occasion{
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

// heardNothing reports whether a try has ended before it could know whether the lock is busy: its time was too short.
func heardNothing(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && errors.Is(err, ErrBusy) && len(e.Holders) == 0
}

func onceError(key string, err error) error { return &Error{Op: "once", Key: key, Err: err} }

// checkOnce refuses what a job cannot have.
func checkOnce(opts []Option) error {
	p, err := NewPolicy(opts...)
	given := decidedBy(opts)
	switch {
	case err != nil:
		return err
	case given&(1<<optWait) != 0:
		return fmt.Errorf("%w: WithWait: Once waits until its tick is over", ErrInvalidOption)
	case p.MinHold > 0:
		return fmt.Errorf("%w: WithMinHold: a mark says that a tick was run", ErrInvalidOption)
	case p.MaxHold > 0:
		return fmt.Errorf("%w: WithMaxHold: another replica would run the tick again; give run's context a timeout", ErrInvalidOption)
	case p.Fixed:
		return fmt.Errorf("%w: WithFixedLease: the lease of a job is renewed", ErrInvalidOption)
	case p.FailOpen:
		return fmt.Errorf("%w: WithFailOpen: every replica would run the tick", ErrInvalidOption)
	case p.Place != "":
		return fmt.Errorf("%w: WithPlace: Once waits in one call", ErrInvalidOption)
	}
	return nil
}

// An occasion is a call of Once.
type occasion struct {
	locker      Locker
	key         string
	tick        core.Tick
	run         func(context.Context) error
	opts        []Option
	called      time.Time
	ends        time.Time // when it stops to wait
	unavailable error     // why the last try failed, if Redis did not answer
	ran         bool
	backoff
}

// try waits for the lock, and runs the tick if nobody has. It reports whether to try again.
func (o *occasion) try(ctx context.Context) (again bool, err error) {
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
		lost = contextError(held) // that an observer has ended, if it is not ctx
	}
	_ = hold.Unlock() // nothing has run
	switch {
	case err == nil && answer != core.TickBegun:
		return false, o.decline(answer, now)
	case ctx.Err() != nil:
		return false, onceError(o.key, contextError(ctx))
	case err == nil:
		err = lost
	}
	return mayPass(err) || errors.Is(err, ErrLost), onceError(o.key, err)
}

// mayPass reports whether the server is unavailable for a while only.
func mayPass(err error) bool {
	return errors.Is(err, ErrUnavailable) && core.FaultOf(err) != core.Lasting
}

// decline returns the result of a call that is not to run its tick.
func (o *occasion) decline(answer core.TickAnswer, now time.Time) error {
	switch answer {
	case core.TickRan:
		return nil
	case core.TickFailed:
		return onceError(o.key, ErrUnfinished)
	default:
		return o.notDue(now)
	}
}

// begin asks whether to run the tick. It has as long as a call that only tries, at least.
func (o *occasion) begin(held context.Context, ticks core.TickHold, tick core.Tick) (
	answer core.TickAnswer, now time.Time, err error,
) {
	ctx, cancel := context.WithTimeout(held, max(time.Until(o.ends), defaultUnlockTimeout))
	defer cancel()
	return ticks.BeginTick(ctx, tick)
}

// notDue returns why a tick is not near the server's time: it was not at the call, or the call had to wait for too long.
func (o *occasion) notDue(now time.Time) error {
	late := ClockError{Tick: o.tick.At, Server: now.Add(-time.Since(o.called)), Within: o.tick.Within}
	switch {
	case late.Difference().Abs() > o.tick.Within:
		return onceError(o.key, &late)
	case o.unavailable != nil:
		return o.unavailable
	}
	e := &Error{Op: "once", Key: o.key, Waited: time.Since(o.called)}
	e.Err = fmt.Errorf("%w: when it was free, the tick was %v ago", ErrBusy, now.Sub(o.tick.At).Round(time.Millisecond))
	return e
}

// perform runs the tick, marks it and releases the lock. From over on no replica may run it any more.
func (o *occasion) perform(ctx, held context.Context, hold *Hold, tick core.Tick, over time.Time) (err error) {
	o.ran = true
	defer func() {
		if lost := hold.check(); lost != nil { // no mark: nobody knows how far the run has come
			err = lossDuring(hold, hold.fail("once", lost), err)
		} else if failed := o.mark(ctx, hold, tick, over); failed != nil {
			err = lossDuring(hold, hold.fail("once", failed), err)
		}
		_ = hold.Unlock() // the run has ended before, and is marked, or that is an error already
	}()
	return o.run(held)
}

// mark notes that the tick was run. If it cannot, the lock stays taken for as long as another replica might run it.
func (o *occasion) mark(ctx context.Context, hold *Hold, tick core.Tick, over time.Time) error {
	ticks, _ := hold.lock.backend.(core.TickHold)
	patience := hold.lock.unlockTimeout()
	mark, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(time.Until(over), patience))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(patience, cancel) })() // the caller is in a hurry
	again, err := ticks.MarkTick(mark, tick)
	switch {
	case err != nil:
		ticks.KeepTaken(time.Until(over) + time.Millisecond)
		return fmt.Errorf("the run has ended, but cannot be marked: %w", err)
	case again:
		return fmt.Errorf("%w: the run had ended, but another replica has begun the tick before the mark was there", ErrLost)
	}
	return nil
}
