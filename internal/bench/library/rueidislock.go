package library

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

var rueidislockLibrary = Library{Name: "rueidislock", Open: openRueidislock, Watchdog: true, Wakes: true}

// rueidislockLocker uses one rueidislock.Locker as its README does for a single Redis of 7.0.5 or later: KeyMajority 1,
// client-side caching on, NoLoopTracking. It keeps the default validity of 5 s, which the library extends itself.
type rueidislockLocker struct {
	locker rueidislock.Locker
}

func openRueidislock(c Config) (Locker, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{c.Addr}},
		KeyMajority:    1,
		NoLoopTracking: true,
		// By default an answer that takes longer than 20 ms, as on a busy machine, is given up. With NoLoopTracking nothing
		// then wakes the caller, although the lock is free.
		TryNextAfter: time.Second,
	})
	if err != nil {
		return nil, err
	}
	return &rueidislockLocker{locker}, nil
}

// Lock implements Locker.
func (l *rueidislockLocker) Lock(ctx context.Context, key string) (Hold, error) {
	_, cancel, err := l.locker.WithContext(ctx, key)
	if err != nil {
		return nil, err
	}
	return rueidislockHold(cancel), nil
}

// Close implements Locker.
func (l *rueidislockLocker) Close() error {
	l.locker.Close()
	return nil
}

type rueidislockHold context.CancelFunc

// Unlock implements Hold; the function returns when the key was deleted, or could not be deleted.
func (h rueidislockHold) Unlock() error {
	h()
	return nil
}
