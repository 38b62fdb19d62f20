package lockmw

import (
	"context"
	"fmt"

	"github.com/lockmw/go/internal/inspect"
)

// What is nil, or is not made by its constructor, is named: an error where one can be returned, otherwise a panic.

var (
	errNilContext  = fmt.Errorf("%w: the context is nil", ErrInvalidOption)
	errNilArgument = fmt.Errorf("%w: an argument is nil", ErrInvalidOption)
)

// made returns what takes the Client's locks.
func (c *Client) made() *kindLocker {
	if c == nil || c.locker == nil {
		panic("lockmw: the Client is nil, or was not made by New")
	}
	return c.locker
}

// made returns l.
func (l *Local) made() *Local {
	if l == nil || l.writer == nil {
		panic("lockmw: the Local is nil, or was not made by NewLocal")
	}
	return l
}

// made returns what reads the locks, for a call with ctx.
func (i *Inspector) made(ctx context.Context) *inspect.Inspector {
	if i == nil || i.inspector == nil {
		panic("lockmw: the Inspector is nil, or was not made by NewInspector")
	}
	checkContext(ctx)
	return i.inspector
}

// isNil reports whether h is not the hold of a lock.
func (h *Hold) isNil() bool { return h == nil || h.lock == nil }

// held returns the lock of h.
func (h *Hold) held() *heldLock {
	if h.isNil() {
		panic("lockmw: the Hold is nil: look at the error of Lock")
	}
	return h.lock
}

func checkContext(ctx context.Context) {
	if ctx == nil {
		panic(errNilContext)
	}
}
