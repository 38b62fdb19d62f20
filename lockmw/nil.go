package lockmw

import (
	"context"
	"fmt"

	"github.com/lockmw/go/internal/inspect"
)

// A nil argument, and a value that its constructor did not make, end with an error that names it, or with a panic where no error
// can be returned.

var (
	errNilContext  = fmt.Errorf("%w: the context is nil", ErrInvalidOption)
	errNilArgument = fmt.Errorf("%w: an argument is nil", ErrInvalidOption)
)

// made returns the Client's locker. It panics if New did not make c.
func (c *Client) made() *kindLocker {
	if c == nil || c.locker == nil {
		panic("lockmw: the Client is nil, or was not made by New")
	}
	return c.locker
}

// made returns l. It panics if NewLocal did not make l.
func (l *Local) made() *Local {
	if l == nil || l.writer == nil {
		panic("lockmw: the Local is nil, or was not made by NewLocal")
	}
	return l
}

// made returns the implementation of i, for a call with ctx. It panics if NewInspector did not make i, or if ctx is nil.
func (i *Inspector) made(ctx context.Context) *inspect.Inspector {
	if i == nil || i.inspector == nil {
		panic("lockmw: the Inspector is nil, or was not made by NewInspector")
	}
	checkContext(ctx)
	return i.inspector
}

// isNil reports whether h is not the hold of a lock.
func (h *Hold) isNil() bool { return h == nil || h.lock == nil }

// held returns the lock of h. It panics if h is not the hold of a lock.
func (h *Hold) held() *heldLock {
	if h.isNil() {
		panic("lockmw: the Hold is nil: check the error of Lock")
	}
	return h.lock
}

func checkContext(ctx context.Context) {
	if ctx == nil {
		panic(errNilContext)
	}
}
