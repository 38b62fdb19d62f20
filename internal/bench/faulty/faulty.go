// Package faulty has libraries with faults that the benchmark must notice, for its tests.
package faulty

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/lockmw/go/internal/bench/library"
)

// Only Careless and Dozing use Redis.
var (
	// Open excludes no other caller.
	Open = fake("open", func(context.Context, chan struct{}) bool { return true })
	// Deaf waits forever, even if the context ends.
	Deaf = fake("deaf", func(context.Context, chan struct{}) bool { select {} })
	// Forgetful excludes, but loses its waiters.
	Forgetful = fake("forgetful", func(ctx context.Context, free chan struct{}) bool {
		select {
		case <-free:
			return true
		default:
			<-ctx.Done()
			return false
		}
	})
	// Sound excludes the goroutines of one process.
	Sound = fake("sound", func(ctx context.Context, free chan struct{}) bool {
		select {
		case <-free:
			return true
		case <-ctx.Done():
			return false
		}
	})
	// Careless excludes, but admits every reader.
	Careless = library.Library{Name: "careless", Open: openCareless}
	// Dozing excludes, but in each process every third wait misses that the lock is free.
	Dozing = library.Library{Name: "dozing", Open: openDozing}
	// Repeating runs the work of each idempotent call again.
	Repeating = library.Library{Name: "repeating", Calls: openRepeating}
	// OursRepeating does the same, and counts as this module's.
	OursRepeating = library.Library{Name: "ours-repeating", Calls: openRepeating, Ours: true}
	// Mixed gives all idempotent calls the answer "mixed", and runs the work of each call.
	Mixed = library.Library{Name: "mixed", Calls: openMixed}
	// Refusing answers every call with an error.
	Refusing = fake("refusing", func(context.Context, chan struct{}) bool { return false })
)

// All returns the libraries that lock.
func All() []library.Library {
	return []library.Library{Open, Deaf, Forgetful, Sound, Careless, Dozing, Refusing}
}

// Callers returns the adapters for idempotent calls.
func Callers() []library.Library { return []library.Library{Repeating, Mixed, OursRepeating} }

// fake makes a library from a function that waits for a token.
func fake(name string, lock func(ctx context.Context, free chan struct{}) bool) library.Library {
	return library.Library{Name: name, Open: func(library.Config) (library.Locker, error) {
		l := &locker{free: make(chan struct{}, 1), lock: lock}
		l.free <- struct{}{}
		return l, nil
	}}
}

// A locker has one lock for all keys.
type locker struct {
	free chan struct{}
	lock func(context.Context, chan struct{}) bool
}

// Lock implements library.Locker.
func (l *locker) Lock(ctx context.Context, _ string) (library.Hold, error) {
	if l.lock(ctx, l.free) {
		return l, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return nil, errRefused
}

// Unlock implements library.Hold.
func (l *locker) Unlock() error {
	select {
	case l.free <- struct{}{}:
	default: // the token was never taken
	}
	return nil
}

// Close implements library.Locker.
func (l *locker) Close() error { return nil }

var errRefused = errors.New("not today")

// careless takes lockmw's locks, so that only its readers have faults.
type careless struct{ library.Locker }

func openCareless(c library.Config) (library.Locker, error) {
	l, err := library.OpenLockmw(c)
	return careless{l}, err
}

// RLock implements library.Reader.
func (careless) RLock(context.Context, string) (library.Hold, error) { return nothing{}, nil }

// dozing takes lockmw's locks.
type dozing struct {
	library.Locker
	calls atomic.Int64
}

func openDozing(c library.Config) (library.Locker, error) {
	l, err := library.OpenLockmw(c)
	return &dozing{Locker: l}, err
}

// Lock implements library.Locker.
func (l *dozing) Lock(ctx context.Context, key string) (library.Hold, error) {
	if l.calls.Add(1)%3 == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return l.Locker.Lock(ctx, key)
}

type nothing struct{}

// Unlock implements library.Hold.
func (nothing) Unlock() error { return nil }

type repeating struct{ work library.Work }

func openRepeating(_ library.Config, work library.Work) (library.Caller, error) {
	return repeating{work}, nil
}

// Call implements library.Caller.
func (r repeating) Call(_ context.Context, c library.Call) ([]byte, error) { return r.work(c) }

// Close implements library.Caller.
func (repeating) Close() error { return nil }

type mixed struct{ repeating }

func openMixed(_ library.Config, work library.Work) (library.Caller, error) {
	return mixed{repeating{work}}, nil
}

// Call implements library.Caller.
func (r mixed) Call(_ context.Context, c library.Call) ([]byte, error) {
	_, err := r.work(c)
	return []byte("mixed"), err
}
