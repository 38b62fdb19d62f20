package lockmw

import "context"

// A Locker takes locks. It will never get a second method: new features are added as an Option, a method of Hold or a further
// interface. LockerFunc makes a fake of a function, and NewHold helps to write other backends.
type Locker interface {
	// Lock waits for key's lock until ctx ends, unless WithWait limits the wait. The returned context carries the hold, so that
	// a nested Lock with it re-enters. It ends, with a cause, when the lock is lost or unlocked. If the process was paused until
	// the lease had expired, Err says so immediately, and Done is closed within 500 ms. On failure Lock returns ctx itself, a nil
	// Hold and an *Error.
	Lock(ctx context.Context, key string, opts ...Option) (context.Context, *Hold, error)
}

// An RWLocker has the shape of sync.RWMutex: its Lock takes the lock for writing, and RLocker returns a Locker for reading.
type RWLocker interface {
	Locker
	RLocker() Locker
}

// A LockerFunc makes a Locker of a function: a fake for tests, or another backend.
type LockerFunc func(ctx context.Context, key string, opts ...Option) (context.Context, *Hold, error)

// Lock calls f.
func (f LockerFunc) Lock(ctx context.Context, key string, opts ...Option) (context.Context, *Hold, error) {
	if f == nil {
		return ctx, nil, &Error{Op: "lock", Key: key, Err: errNilArgument}
	}
	return f(ctx, key, opts...)
}
