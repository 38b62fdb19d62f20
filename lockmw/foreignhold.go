package lockmw

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
)

// NewHold makes a Hold for a Locker of another backend, or for a fake. Such a Locker returns both results from its Lock. The
// backend reports a loss by cancelling ctx with cause ErrLost. unlock is called once, with a context that ends after 2 s. The
// key is not checked. Hold.Extend and Downgrade return errors.ErrUnsupported. NewHold panics if ctx or unlock is nil.
func NewHold(ctx context.Context, key string, token int64, unlock func(context.Context) error) (context.Context, *Hold) {
	checkContext(ctx)
	if unlock == nil {
		panic(errNilArgument)
	}
	l := &heldLock{
		locker:  noLocker,
		req:     core.Request{Key: key, Mode: core.Exclusive},
		backend: &foreignHold{token: token, ctx: ctx, unlock: unlock},
	}
	h := l.newHold()
	h.attach(ctx)
	return &h.ctx, h
}

// noLocker stands for the Locker of another backend.
var noLocker = &kindLocker{unlockTimeout: defaultUnlockTimeout}

// A foreignHold is the lock behind a Hold made by NewHold.
type foreignHold struct {
	token  int64
	ctx    context.Context
	unlock func(context.Context) error
}

func (g *foreignHold) Token() int64 { return g.token }

func (g *foreignHold) Deadline() clock.Instant { return 0 }

func (g *foreignHold) Expired() bool { return errors.Is(context.Cause(g.ctx), ErrLost) }

func (g *foreignHold) Extend(context.Context, time.Duration) error {
	return fmt.Errorf("this backend cannot extend a lease: %w", errors.ErrUnsupported)
}

func (g *foreignHold) KeepTaken(time.Duration) {}

func (g *foreignHold) Downgrade(context.Context) error {
	return fmt.Errorf("this backend has no read locks: %w", errors.ErrUnsupported)
}

func (g *foreignHold) Release(patience time.Duration) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return 0, g.unlock(ctx)
}
