package library

import (
	"context"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

var (
	lockmwFairLibrary = Library{Name: "lockmw-fair", Open: openFair, Watchdog: true, Wakes: true, Ours: true, Variant: true}
	lockmwRWLibrary   = Library{Name: "lockmw-rw", Open: openRW, Watchdog: true, Wakes: true, Ours: true, Variant: true}
)

// fair is this module's fair lock with its defaults.
type fair struct {
	*Lockmw
	locker *fairlock.Locker
}

func openFair(c Config) (Locker, error) {
	l, err := OpenLockmw(c)
	if err != nil {
		return nil, err
	}
	return &fair{l, fairlock.New(l.Client)}, nil
}

// Lock implements Locker.
func (l *fair) Lock(ctx context.Context, key string) (Hold, error) {
	return lockWith(ctx, l.locker, key)
}

// LockAnnounced implements Announcer.
func (l *fair) LockAnnounced(ctx context.Context, key string, waiting func()) (Hold, error) {
	return lockAnnounced(ctx, l.locker, key, waiting)
}

// rw is this module's read-write lock with its defaults.
type rw struct {
	*Lockmw
	locker *rwlock.Locker
	reader lockmw.Locker
}

func openRW(c Config) (Locker, error) {
	l, err := OpenLockmw(c)
	if err != nil {
		return nil, err
	}
	locker := rwlock.New(l.Client)
	return &rw{l, locker, locker.RLocker()}, nil
}

// Lock implements Locker: it writes.
func (l *rw) Lock(ctx context.Context, key string) (Hold, error) {
	return lockWith(ctx, l.locker, key)
}

// RLock implements Reader.
func (l *rw) RLock(ctx context.Context, key string) (Hold, error) {
	return lockWith(ctx, l.reader, key)
}

func lockWith(ctx context.Context, l lockmw.Locker, key string, opts ...lockmw.Option) (Hold, error) {
	_, hold, err := l.Lock(ctx, key, opts...)
	if err != nil {
		return nil, err // not a typed nil, which would be a Hold
	}
	return hold, nil
}

func lockAnnounced(ctx context.Context, l lockmw.Locker, key string, waiting func()) (Hold, error) {
	return lockWith(ctx, l, key, lockmw.WithObserver(&lockmw.Observer{
		Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { waiting() },
	}))
}
