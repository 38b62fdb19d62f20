package lockmw

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/list"
)

// defaultUnlockTimeout bounds how long Unlock waits for the server.
const defaultUnlockTimeout = 2 * time.Second

// A Hold is one acquisition of a lock. Nested holds of the same lock share one lease, and the lock is released with the last
// of them. Safe for concurrent use.
//
// A hold must be unlocked, which takes the Hold or its context. If the program drops both, and also all nested holds of the
// lock, the hold is forgotten: it is logged (WithLogger, WithStacks), no longer renewed, and lost when its lease expires. A
// goroutine that only waits for the Done channel of the context does not keep it.
type Hold struct {
	links //nolint:unused // embedded: its methods put the hold into the list of holds of lock

	lock     *heldLock
	outer    *Hold // the innermost hold of the context that this one was taken with
	unlocked atomic.Bool
	mode     core.Mode  // guarded by lock.mu: a downgrade changes it
	limit    *holdLimit // of a nested hold with a maximum of its own; otherwise nil
	ctx      holdContext
}

type links = list.Links[*Hold] //nolint:unused // an alias, so that the documentation shows no fields

// Key returns the key as it was given to Lock.
func (h *Hold) Key() string { return h.held().req.Key }

// Token returns the fencing token, with which a database can refuse the late write of a former holder: store the token with
// the data and refuse smaller ones. docs/fencing.md has the statement. A token is greater than the tokens of all earlier holds of
// the key. A read hold has at least the token of the last write hold, and a smaller one than the next write hold. A token
// fits into a BIGINT. It is 0 if the lock failed open, and for redlock.WithoutToken.
func (h *Hold) Token() int64 {
	if backend := h.held().backend; backend != nil {
		return backend.Token()
	}
	return 0
}

// Deadline returns when the hold ends unless it is renewed, as an instant to compare with time.Now. Call it for each
// comparison. A renewal moves the deadline later. A sleep of the machine, or a step forward of its wall clock, moves it
// earlier, because time.Now may not show the time that has passed. It is zero if there is no limit: if the lock failed open,
// for a hold of NewHold, and for a hold of a Local without WithFixedLease and WithMaxHold.
func (h *Hold) Deadline() time.Time {
	var deadline clock.Instant
	if h.held().backend != nil {
		deadline = h.lock.backend.Deadline()
	}
	if h.limit != nil && (deadline.IsZero() || h.limit.at.Before(deadline)) {
		deadline = h.limit.at
	}
	return deadline.Time()
}

// Extend starts a new lease from now. It is the only way to prolong a lock with WithFixedLease. lease is from 100 ms to 24 h.
// A read lock may be shared within the process: Extend cannot make its lease longer than it was at Lock.
//
// Extend never shortens a lease. It returns ErrInvalidOption and changes nothing if more than lease is left of a fixed lease,
// or if the watchdog renews a longer one. Use Unlock to end a lock sooner.
//
// If the server cannot answer, Extend waits for it until ctx or the hold ends. It returns ErrLost if the hold has ended,
// ErrNotHeld if it was unlocked or is nil, and ErrUnavailable if the server refused or ctx ended first: the hold then lasts
// until Deadline. A backend that cannot extend leases returns errors.ErrUnsupported.
func (h *Hold) Extend(ctx context.Context, lease time.Duration) error {
	return h.fail("extend", h.extend(ctx, lease))
}

func (h *Hold) extend(ctx context.Context, lease time.Duration) error {
	switch {
	case h.isNil():
		return errNilHold
	case ctx == nil:
		return errNilContext
	}
	if lease < minLease || lease > maxLease {
		return fmt.Errorf("%w: lease of %v, must be from %v to %v", ErrInvalidOption, lease, minLease, maxLease)
	}
	if h.unlocked.Load() {
		return ErrNotHeld
	}
	if err := h.check(); err != nil || h.lock.backend == nil {
		return err
	}
	return h.lock.backend.Extend(ctx, lease)
}

// Unlock ends the hold and its context. When the last hold that shares the lock is unlocked, the lock becomes free or passes to
// the next waiter. Unlock needs no live context. It retries while Redis cannot answer, for at most the unlock timeout of 2 s
// (WithUnlockTimeout).
//
// It returns ErrNotHeld if the hold was already unlocked, or is nil because Lock failed. It returns ErrLost if the lock was
// lost meanwhile: another holder may have run at the same time. It returns ErrUnavailable if the server did not confirm the
// release: the work was exclusive. The release is then retried in the background; otherwise the lock expires with its lease.
//
// If the lock was deleted from Redis, Unlock or the next renewal reports the loss. But if Unlock passes the lock on to a
// waiting call of this process, that call gets the loss.
func (h *Hold) Unlock() error {
	u := h.beginUnlock()
	if u.releases() {
		u.release()
	}
	return u.end()
}

// An unlocking is a call of Unlock that ends a hold.
type unlocking struct {
	hold     *Hold
	err      error // so far
	last     bool  // hold is the last one of its lock
	limitErr error // the hold has reached a maximum of its own
	sent     bool  // the release was sent, possibly together with others
	result   core.Released
}

// beginUnlock ends the hold in this process, before anything is sent to the server.
func (h *Hold) beginUnlock() (u unlocking) {
	u.hold = h
	if h.isNil() {
		u.err = errNilHold
		return u
	}
	if !h.unlocked.CompareAndSwap(false, true) {
		u.err = fmt.Errorf("%w: it was already unlocked", ErrNotHeld)
		return u
	}
	u.limitErr = h.checkLimit()
	if h.limit != nil {
		h.limit.timer.Stop()
	}
	h.ctx.end(errUnlocked)
	u.last, u.err = h.lock.beginUnlock(h)
	return u
}

// releases reports whether the lock must be released.
func (u *unlocking) releases() bool { return u.last && u.hold.lock.backend != nil }

// release releases the lock.
func (u *unlocking) release() {
	l := u.hold.lock
	u.result.Waiters, u.result.Err = l.backend.Release(l.locker.unlockTimeout)
}

// end notifies the observers and returns the error of the call.
func (u *unlocking) end() error {
	err := u.err
	if u.last {
		err = u.hold.lock.released(u.result, u.err)
	}
	if u.limitErr != nil && !core.IsLoss(err) {
		err = u.limitErr
	}
	return u.hold.fail("unlock", err)
}

// errUnlocked is the cause with which a hold's context ends at Unlock.
var errUnlocked = fmt.Errorf("%w any more: it was unlocked", ErrNotHeld)

// errNilHold is for callers that did not check the error of Lock.
var errNilHold = fmt.Errorf("%w: the hold is nil", ErrNotHeld)

func (h *Hold) fail(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case h.isNil():
		return &Error{Op: op, Err: err}
	}
	return &Error{Op: op, Key: h.lock.req.Key, Label: h.lock.req.Label, Err: err}
}

// attach makes ctx the parent of h's context.
func (h *Hold) attach(ctx context.Context) {
	h.ctx.parent = ctx
	h.outer, _ = FromContext(ctx)
}
