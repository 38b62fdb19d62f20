// Package waitlimit bounds the wait for a lock from outside of the Locker, for the middlewares: they
// do not know which wait a Locker was made with, and a deadline in the context would also end the
// hold.
package waitlimit

import (
	"context"
	"time"
)

// A Limit ends the context of one call unless Stop comes first. The zero Limit never does.
type Limit struct {
	timer  *time.Timer
	cancel context.CancelFunc
}

// Start returns the context for a call that may take d. If d is 0 there is no limit, and the context
// is ctx.
func Start(ctx context.Context, d time.Duration) (context.Context, Limit) {
	if d == 0 {
		return ctx, Limit{}
	}
	ctx, cancel := context.WithCancel(ctx)
	return ctx, Limit{timer: time.AfterFunc(d, cancel), cancel: cancel}
}

// Stop lifts the limit. It reports false if the limit was reached: the context has ended or is just
// ending, and so does a hold that was taken with it.
func (l Limit) Stop() bool { return l.timer == nil || l.timer.Stop() }

// Release ends the context, when nothing uses it any more.
func (l Limit) Release() {
	if l.cancel != nil {
		l.cancel()
	}
}
