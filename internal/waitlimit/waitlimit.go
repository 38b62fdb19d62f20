// Package waitlimit bounds the wait for a lock from outside the Locker, for the middlewares. They do not know the wait of a
// Locker, and a deadline in the context would also end the hold.
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

// A Limit ends the context of one call for a lock unless Stop comes first. The zero Limit never ends it.
type Limit struct {
	longest time.Duration
	timer   *time.Timer
	cancel  context.CancelFunc
	limited *limited
}

// A limited is a context that also contains the end of the wait, for deadlock detection.
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

// Start returns a context for a call that may wait for longest. If longest is 0, there is no limit and the context is ctx. The
// context of the hold is derived from it, so call Release only when nothing uses the hold any more.
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

// Stop ends the limit when the call has returned hold and err, and returns the error of the call: err unless the limit was
// reached. If it was reached, the context has ended or is just ending, and so is a hold that was granted at that moment. Stop
// then releases the hold and returns lockmw.ErrBusy with why as its reason.
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

// Discard releases a hold that was never used. Its error does not name the key, because it becomes a part of another error.
func Discard(hold Unlocker) error { return observe.Reason(hold.Unlock()) }

// Release ends the context.
func (l Limit) Release() {
	if l.cancel != nil {
		l.cancel()
	}
}
