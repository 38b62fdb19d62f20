package lockmw

import (
	"context"
	"fmt"

	"github.com/lockmw/go/internal/core"
)

// downgrade makes h, which l took, a hold for reading.
func (l *KindLocker) downgrade(ctx context.Context, h *Hold) error {
	if h == nil {
		return &Error{Op: "downgrade", Err: fmt.Errorf("%w: the hold is nil", ErrNotHeld)}
	}
	if h.s.locks != l.locks {
		return h.fail("downgrade", fmt.Errorf("%w by this Locker", ErrNotHeld))
	}
	return h.fail("downgrade", h.s.downgrade(ctx, h, l.kind.Mode))
}

// downgrade makes h read only, and the lock with it if no other hold does more.
func (s *holding) downgrade(ctx context.Context, h *Hold, from core.Mode) error {
	lost := s.check()
	s.mu.Lock()
	switch {
	case h.unlocked.Load():
		lost = errUnlocked
	case lost == nil && h.mode != from && !(h.mode == core.Read && s.unconfirmed):
		lost = fmt.Errorf("%w for writing: only what Lock or TryLock returned can be downgraded, once", ErrNotHeld)
	}
	if lost != nil {
		s.mu.Unlock()
		return lost
	}
	h.mode = core.Read
	if !s.onlyRead() && !s.unconfirmed {
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	return s.share(ctx)
}

// onlyRead reports whether the lock excludes more than any of its holds needs, and notes that it does
// so no longer; s.mu is held.
func (s *holding) onlyRead() bool {
	if s.reading || s.grant == nil {
		return false
	}
	for h := range s.holds.All() {
		if h.mode != core.Read {
			return false
		}
	}
	s.reading = true
	return true
}

// share downgrades the lock. If that is not confirmed, other readers may have to wait for its end; it
// can be tried again.
func (s *holding) share(ctx context.Context) error {
	err := s.grant.Downgrade(ctx)
	s.mu.Lock()
	s.unconfirmed = err != nil
	s.mu.Unlock()
	return err
}
