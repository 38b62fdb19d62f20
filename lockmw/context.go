package lockmw

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockmw/go/internal/core"
)

type holdKey struct{}

// FromContext returns the innermost hold that ctx carries, even if it has ended. It returns false if ctx carries none, and
// panics if ctx is nil.
func FromContext(ctx context.Context) (*Hold, bool) {
	checkContext(ctx)
	h, _ := ctx.Value(holdKey{}).(*Hold)
	if h != nil {
		h = h.within(core.ScopeOf(ctx))
	}
	return h, h != nil
}

// Held returns the hold of key that ctx carries. It is for code that relies on a lock of its caller, or needs its token. An
// error is an *Error. It wraps ErrNotHeld if ctx carries no hold of key that is not unlocked, ErrLost if the lock was lost,
// and ErrClosed if the Client was closed.
func Held(ctx context.Context, key string) (*Hold, error) {
	h, _ := FromContext(ctx)
	for ; h != nil; h = h.outerIn(ctx) {
		if h.lock.req.Key != key || h.unlocked.Load() {
			continue
		}
		if err := h.check(); err != nil {
			return nil, &Error{Op: "held", Key: key, Err: err}
		}
		return h, nil
	}
	return nil, &Error{Op: "held", Key: key, Err: fmt.Errorf("%w by this context", ErrNotHeld)}
}

// A holdContext is the context of a hold. It ends with its parent, at Unlock, and when the lock is lost. Err compares the
// clock with the lock's deadline itself, because a timer may be late: the process may have been stopped, or its machine
// asleep, until after the lease expired. Done is closed at most clock.Interval later.
//
// Most holds end before any code waits for their context. So a real context is only made when Done is called, or
// context.Cause after the end.
type holdContext struct {
	parent context.Context
	hold   *Hold

	mu     sync.Mutex
	inner  context.Context
	cancel context.CancelCauseFunc
	cause  error
}

func (c *holdContext) Deadline() (time.Time, bool) { return c.parent.Deadline() }

func (c *holdContext) Done() <-chan struct{} { return c.lockedReal().Done() }

func (c *holdContext) lockedReal() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.real()
}

// real returns the context behind c, and makes it if necessary. c.mu is held.
func (c *holdContext) real() context.Context {
	if c.inner == nil {
		parent := c.parent
		if c.cause != nil {
			parent = context.WithoutCancel(parent) // c ended before it
		} else if outer, ok := parent.(*holdContext); ok {
			parent = outer.lockedReal() // it does not refer to the outer hold
		}
		c.inner, c.cancel = context.WithCancelCause(parent)
		if c.cause != nil {
			c.cancel(c.cause)
		} else {
			c.hold.lock.lockedRestore()
		}
	}
	return c.inner
}

func (c *holdContext) Err() error {
	c.mu.Lock()
	ended := c.cause != nil
	c.mu.Unlock()
	if !ended {
		lost := c.hold.check()
		if lost == nil {
			return c.parent.Err()
		}
		c.end(lost)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.real().Err()
}

func (c *holdContext) Value(key any) any {
	switch key {
	case holdKey{}:
		return c.hold
	case core.ChainKey{}:
		return chain{c.hold, core.ScopeOf(c.parent)}
	}
	c.mu.Lock()
	ctx := c.inner
	if ctx == nil && c.cause != nil {
		ctx = c.real() // context.Cause finds the cause this way
	}
	c.mu.Unlock()
	if ctx == nil {
		ctx = c.parent
	}
	return ctx.Value(key)
}

// end cancels the context with cause, unless it has already ended.
func (c *holdContext) end(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return
	}
	c.cause = cause
	if c.cancel != nil {
		c.cancel(cause)
	}
}
