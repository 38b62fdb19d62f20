package lockmw

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/list"
)

// defaultUnlockTimeout bounds how long Unlock waits for the server.
const defaultUnlockTimeout = 2 * time.Second

// A Hold is one acquisition. Holds that re-entered share one lock and one lease, which end with the
// last of them. Safe for concurrent use.
type Hold struct {
	links    // among the holds of s that are not unlocked
	s        *holding
	outer    *Hold // the innermost hold of the context that this one was taken with
	unlocked atomic.Bool
	mode     core.Mode // guarded by s.mu: a downgrade changes it
	ctx      holdContext
}

type links = list.Links[*Hold] // an alias, so that the documentation shows no fields

// Key returns the key as it was given to Lock.
func (h *Hold) Key() string { return h.s.req.Key }

// Token returns the fencing token: greater than that of every hold of the key before, or, of a hold for
// reading, that of the last write. Store it where the guarded write happens and refuse smaller ones. It
// fits a BIGINT and is 0 only if the lock failed open.
func (h *Hold) Token() int64 { return h.s.token }

// Deadline returns until when the hold is exclusive should no renewal succeed from now on, by this
// process' clock. It is zero where there is no such limit: after failing open, and for NewHold.
func (h *Hold) Deadline() time.Time {
	if h.s.grant == nil {
		return time.Time{}
	}
	return h.s.grant.Deadline()
}

// Extend sets the lease anew, counted from now; with WithFixedLease it is the way to stay longer. A lease
// that others of the process may share, which is one for reading, becomes no longer than it was asked for.
// The lease must be from 100 ms to 24 h. It returns ErrLost if the hold is over, ErrNotHeld if it was
// unlocked, ErrUnavailable if the server did not confirm; the hold then lasts until Deadline.
func (h *Hold) Extend(ctx context.Context, lease time.Duration) error {
	return h.fail("extend", h.extend(ctx, lease))
}

func (h *Hold) extend(ctx context.Context, lease time.Duration) error {
	if lease < minLease || lease > maxLease {
		return fmt.Errorf("%w: lease of %v, must be from %v to %v", ErrInvalidOption, lease, minLease, maxLease)
	}
	if h.unlocked.Load() {
		return ErrNotHeld
	}
	if err := h.s.check(); err != nil || h.s.grant == nil {
		return err
	}
	return h.s.grant.Extend(ctx, lease)
}

// Unlock ends the hold and its context. The lock becomes free, or passes to whoever is next, when
// the last hold that shares it is unlocked. It needs no live context and takes at most the unlock
// timeout (2 s). It returns ErrNotHeld if the hold was unlocked before and ErrLost if the lock was
// lost meanwhile, so that somebody else may have run at the same time. A lock that was deleted is missed
// here or at the next renewal, whichever comes first, unless Unlock passes the lock on to a call of this
// process that waits: then that one misses it. ErrUnavailable means that the work was exclusive, but that
// the server did not confirm the release: the lock frees itself when its lease runs out, if trying again
// in the background does not succeed sooner.
func (h *Hold) Unlock() error {
	if !h.unlocked.CompareAndSwap(false, true) {
		return h.fail("unlock", fmt.Errorf("%w: unlocked before", ErrNotHeld))
	}
	h.ctx.end(errUnlocked)
	return h.fail("unlock", h.s.unlock(h))
}

// errUnlocked is the cause with which a hold's context ends at Unlock.
var errUnlocked = fmt.Errorf("%w any more: it was unlocked", ErrNotHeld)

func (h *Hold) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Key: h.s.req.Key, Err: err}
}

// NewHold makes a Hold for a Locker of another backend. A loss is reported by cancelling ctx with
// cause ErrLost; unlock is called once, with a context that ends after 2 s.
func NewHold(ctx context.Context, key string, token int64, unlock func(context.Context) error) (context.Context, *Hold) {
	s := &holding{
		req:           core.Request{Key: key, Mode: core.Exclusive},
		grant:         &foreignGrant{token: token, ctx: ctx, unlock: unlock},
		token:         token,
		unlockTimeout: defaultUnlockTimeout,
	}
	h := s.newHold()
	h.carry(ctx)
	return &h.ctx, h
}

// foreignGrant is the lock behind a Hold made by NewHold.
type foreignGrant struct {
	token  int64
	ctx    context.Context
	unlock func(context.Context) error
}

func (g *foreignGrant) Token() int64        { return g.token }
func (g *foreignGrant) Deadline() time.Time { return time.Time{} }
func (g *foreignGrant) Expired() bool       { return errors.Is(context.Cause(g.ctx), ErrLost) }

func (g *foreignGrant) Extend(context.Context, time.Duration) error {
	return fmt.Errorf("this backend cannot extend a lease: %w", errors.ErrUnsupported)
}

func (g *foreignGrant) Downgrade(context.Context) error {
	return fmt.Errorf("this backend has no read locks: %w", errors.ErrUnsupported)
}

func (g *foreignGrant) Release(patience time.Duration) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return 0, g.unlock(ctx)
}

// A holding is one lock that was acquired, shared by the holds that re-entered it. It is what the
// lock's implementation reports to.
type holding struct {
	locks         core.Locks
	req           core.Request
	grant         core.Grant // nil if failed open
	token         int64
	watch         *watch // nil if nobody observes
	unlockTimeout time.Duration

	mu          sync.Mutex
	holds       list.List[*Hold] // those not unlocked
	lost        error            // why the lock ended before it was unlocked
	reading     bool             // the lock does not exclude other readers, or not any more
	unconfirmed bool             // the server has not said so yet
	contended   bool             // it had to wait
	taken       bool             // observers know that it was acquired
}

// newHold makes one more hold, which is not in any context yet.
func (s *holding) newHold() *Hold {
	h := &Hold{s: s, mode: s.req.Mode}
	h.ctx.hold = h
	s.mu.Lock()
	s.reading = h.mode == core.Read
	s.holds.Push(h)
	s.mu.Unlock()
	return h
}

// carry makes h's context continue ctx.
func (h *Hold) carry(ctx context.Context) {
	h.ctx.parent = ctx
	h.outer, _ = FromContext(ctx)
}

// reenter makes one more hold if the lock is still there; without an error and a hold, it was
// unlocked.
func (s *holding) reenter(ctx context.Context, mode core.Mode) (*Hold, error) {
	_ = s.check() // notes a loss by the clock
	h := &Hold{s: s, mode: mode}
	h.ctx.hold = h
	h.carry(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.lost != nil:
		return nil, s.lost
	case s.holds.IsEmpty():
		return nil, nil
	case s.reading && mode != core.Read:
		return nil, ErrUpgrade
	}
	s.holds.Push(h)
	return h, nil
}

// check returns why the lock is lost, by the clock if nothing else has noticed yet.
func (s *holding) check() error {
	s.mu.Lock()
	lost := s.lost
	s.mu.Unlock()
	if lost == nil && s.grant != nil && s.grant.Expired() {
		cause := fmt.Errorf("%w: its lease ran out", ErrLost)
		if g, ok := s.grant.(*foreignGrant); ok {
			cause = context.Cause(g.ctx)
		}
		s.Lost(cause)
		s.mu.Lock()
		lost = s.lost
		s.mu.Unlock()
	}
	return lost
}

// unlock ends h and, with the last hold, the lock; with the last one that does not only read, it is
// downgraded.
func (s *holding) unlock(h *Hold) error {
	lost := s.check()
	s.mu.Lock()
	s.holds.Remove(h)
	last := s.holds.IsEmpty()
	if !last && lost == nil && s.onlyRead() {
		s.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), s.unlockTimeout)
		defer cancel()
		if err := s.share(ctx); !errors.Is(err, ErrNotHeld) { // else the last one was unlocked meanwhile
			return err
		}
		return nil
	}
	s.mu.Unlock()
	if !last || s.grant == nil && lost == nil && s.watch == nil {
		return lost
	}
	waiters, err := 0, error(nil)
	if s.grant != nil {
		waiters, err = s.grant.Release(s.unlockTimeout)
	}
	if lost != nil {
		err = lost
	}
	if s.watch != nil {
		s.watch.released(Release{Held: time.Since(s.watch.since), Waiters: waiters, Err: err})
	}
	return err
}

// Lost implements core.Events: it ends the context of every hold.
func (s *holding) Lost(cause error) {
	s.mu.Lock()
	if s.lost != nil || s.holds.IsEmpty() {
		s.mu.Unlock()
		return
	}
	s.lost = cause
	observed := s.taken && s.watch != nil
	holds := slices.Collect(s.holds.All())
	s.mu.Unlock()
	for _, h := range holds {
		h.ctx.end(cause)
	}
	if observed {
		s.watch.lost(cause)
	}
}

// take opens the way for events to the observers, who have been told of the acquisition.
func (s *holding) take() {
	s.mu.Lock()
	s.taken = true
	lost := s.lost
	s.mu.Unlock()
	if lost != nil && s.watch != nil {
		s.watch.lost(lost)
	}
}

// Renewed implements core.Events.
func (s *holding) Renewed(err error) {
	if s.watch == nil {
		return
	}
	s.mu.Lock()
	current := s.taken && !s.holds.IsEmpty()
	s.mu.Unlock()
	if current {
		s.watch.renewed(err)
	}
}

// Contended implements core.Events.
func (s *holding) Contended(w core.Wait) {
	s.mu.Lock()
	s.contended = true
	s.mu.Unlock()
	if s.watch != nil {
		s.watch.contended(contention(w))
	}
}

// Waiting implements core.Events.
func (s *holding) Waiting(w core.Wait) {
	if s.watch != nil {
		s.watch.waiting(contention(w))
	}
}

func contention(w core.Wait) Contention {
	return Contention{Holders: holdersOf(w.Holders), Position: w.Position, Waiters: w.Queued}
}

func (s *holding) isContended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.contended
}
