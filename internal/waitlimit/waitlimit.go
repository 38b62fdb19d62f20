// Package waitlimit bounds the wait for a lock from outside of the Locker, for the middlewares: they
// do not know which wait a Locker was made with, and a deadline in the context would also end the
// hold.
package waitlimit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/observe"
	"github.com/lockmw/go/lockmw"
)

// A Limit ends the context of one call for a lock unless Stop comes first. The zero Limit never does.
type Limit struct {
	longest time.Duration
	timer   *time.Timer
	cancel  context.CancelFunc
	limited *limited
}

// A limited context says when the wait ends: who looks for deadlocks wants to know.
type limited struct {
	context.Context
	end     time.Time
	stopped atomic.Bool
}

func (l *limited) Value(key any) any {
	if key == (core.WaitEndKey{}) && !l.stopped.Load() {
		return l.end
	}
	return l.Context.Value(key)
}

// Start returns the context for a call that may take longest. If that is 0 there is no limit, and the
// context is ctx. The hold's context inherits from it: call Release when nothing uses that any more.
func Start(ctx context.Context, longest time.Duration) (context.Context, Limit) {
	if longest == 0 {
		return ctx, Limit{}
	}
	ctx, cancel := context.WithCancel(ctx)
	l := &limited{Context: ctx, end: time.Now().Add(longest)}
	return l, Limit{longest: longest, timer: time.AfterFunc(longest, cancel), cancel: cancel, limited: l}
}

// An Unlocker is a *lockmw.Hold or lockmw.Holds.
type Unlocker interface{ Unlock() error }

// Stop lifts the limit when the call has returned hold and err, and returns the error of the call: err
// unless the limit was reached. Then the context has ended or is just ending, and so does a hold that was
// granted in this instant: Stop releases it and returns lockmw.ErrBusy, which says why.
func (l Limit) Stop(hold Unlocker, err error, why string) error {
	if l.limited != nil {
		l.limited.stopped.Store(true)
	}
	switch {
	case l.timer == nil || l.timer.Stop():
		return err
	case err == nil:
		err = Discard(hold)
	case errors.Is(err, lockmw.ErrBusy), errors.Is(err, lockmw.ErrUnavailable):
		return err
	}
	busy := fmt.Errorf("%w: %s", lockmw.ErrBusy, why)
	return &lockmw.Error{Op: "lock", Waited: l.longest, Err: errors.Join(busy, err)}
}

// Discard releases a hold that nobody has used. The error is to be part of another one and does not
// name the key: that is for the other one to do, or not.
func Discard(hold Unlocker) error { return observe.Reason(hold.Unlock()) }

// Release ends the context.
func (l Limit) Release() {
	if l.cancel != nil {
		l.cancel()
	}
}
