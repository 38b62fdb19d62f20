package lockmw

import (
	"context"
	"fmt"

	"github.com/lockmw/go/internal/core"
)

// Downgrade implements kinds.Locker: it makes h, which must be a hold of l, a read hold.
func (l *kindLocker) Downgrade(ctx context.Context, h *Hold) error {
	switch {
	case h.isNil():
		return h.fail("downgrade", errNilHold)
	case ctx == nil:
		return h.fail("downgrade", errNilContext)
	}
	if !h.lock.isOf(l.locks) {
		return h.fail("downgrade", fmt.Errorf("%w by this Locker", ErrNotHeld))
	}
	return h.fail("downgrade", h.lock.downgrade(ctx, h, l.kind.Mode))
}

// downgrade makes h a read hold, and downgrades the lock if no write hold of it is left.
func (l *heldLock) downgrade(ctx context.Context, h *Hold, from core.Mode) error {
	lost := h.check()
	l.mu.Lock()
	l.restore()
	switch {
	case h.unlocked.Load():
		lost = errUnlocked
	case lost == nil && h.mode != from && !(h.mode == core.Read && l.unconfirmed):
		lost = fmt.Errorf("%w for writing: only a hold from Lock or TryLock can be downgraded, and only once", ErrNotHeld)
	}
	if lost != nil {
		l.mu.Unlock()
		return lost
	}
	h.mode = core.Read
	if !l.beginDowngrade() && !l.unconfirmed {
		l.mu.Unlock()
		return nil
	}
	l.mu.Unlock()
	return l.shareWithReaders(ctx)
}

// beginDowngrade marks the lock as shared with readers if it still excludes them although no hold writes any more. It reports
// whether the caller has to downgrade the lock. l.mu is held.
func (l *heldLock) beginDowngrade() bool {
	if l.reading || l.backend == nil {
		return false
	}
	for h := range l.holds.All() {
		if h.mode != core.Read {
			return false
		}
	}
	l.reading = true
	return true
}

// shareWithReaders downgrades the lock. The caller may retry if the server does not confirm. Until then other readers may have
// to wait.
func (l *heldLock) shareWithReaders(ctx context.Context) error {
	err := l.backend.Downgrade(ctx)
	l.mu.Lock()
	l.unconfirmed = err != nil
	l.mu.Unlock()
	return err
}
