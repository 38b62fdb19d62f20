// Package watermilllock is middleware for watermill routers that runs handlers under the locks of their messages.
package watermilllock

import (
	"context"
	"errors"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/lockmw/go/lockmw"
)

// Ordered handles one message at a time for each key, also if several handlers, routers or processes receive them. A message waits for
// its lock until its context ends. If it does not get the lock, or loses it, the error ends the handler, and watermill delivers the
// message again. Messages for which key returns lockmw.ErrNoLock run without a lock.
func Ordered(locks lockmw.Locker, key lockmw.KeyFunc[*message.Message], opts ...lockmw.Option) message.HandlerMiddleware {
	opts = append([]lockmw.Option{lockmw.WithWait(lockmw.Forever)}, opts...)
	return func(next message.HandlerFunc) message.HandlerFunc {
		locked := lockmw.WithLockValue(locks, key, func(ctx context.Context, m *message.Message) ([]*message.Message, error) {
			outer := m.Context()
			m.SetContext(ctx) // it carries the hold, and ends with it
			defer m.SetContext(outer)
			return next(m)
		}, opts...)
		return func(m *message.Message) ([]*message.Message, error) {
			return locked(lockmw.WithoutHolds(m.Context()), m) // holds of the subscriber do not belong to its messages
		}
	}
}

// HasNoKey reports whether a message failed because it has no valid key. It fails again each time: it is for a poison queue. A message
// whose key took too long, such as a query of a database that is down, may succeed later.
func HasNoKey(err error) bool {
	e, ok := errors.AsType[*lockmw.Error](err)
	switch {
	case !ok, errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return false
	}
	return e.Op == "key" || errors.Is(err, lockmw.ErrInvalidKey)
}
