package lockmw

import "context"

// A Locker takes locks. It never gets a second method: what is new arrives as an Option, a Hold
// method or a further interface. LockerFunc makes a fake; NewHold serves other backends.
type Locker interface {
	// Lock waits for key's lock until ctx ends, unless WithWait says otherwise. The context it
	// returns carries the hold (a nested Lock with it re-enters) and ends, with a cause, at loss or
	// Unlock. On failure it returns ctx itself, a nil Hold and an *Error.
	Lock(ctx context.Context, key string, opts ...Option) (context.Context, *Hold, error)
}

// An RWLocker has the shape of sync.RWMutex: Lock writes, and Lock of RLocker's Locker reads.
type RWLocker interface {
	Locker
	RLocker() Locker
}

// A LockerFunc is a Locker made of a function: a fake for tests, or another backend.
type LockerFunc func(ctx context.Context, key string, opts ...Option) (context.Context, *Hold, error)

// Lock calls f.
func (f LockerFunc) Lock(ctx context.Context, key string, opts ...Option) (context.Context, *Hold, error) {
	if f == nil {
		return ctx, nil, &Error{Op: "lock", Key: key, Err: errNilArgument}
	}
	return f(ctx, key, opts...)
}
