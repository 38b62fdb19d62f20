// Package kinds makes what fairlock, rwlock, semaphore and redlock consist of: Lockers of one kind, with what all kinds share.
// These packages show their users as much of it as the kind has. Package lockmw implements it.
package kinds

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inside"
	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
)

// A Locker takes locks of one kind: re-entry, holds and their contexts, options, observers, failing open.
type Locker interface {
	lockmw.Locker
	TryLock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error)
	// Downgrade makes a write hold of the Locker a read hold: see rwlock.Locker.
	Downgrade(ctx context.Context, h *lockmw.Hold) error
	Logger() *slog.Logger
	// Locks returns the implementation, and Policy what calls with opts have, with the Locker's defaults.
	Locks() core.Locks
	Policy(opts ...lockmw.Option) (lockmw.Policy, error)
	// Backend returns where the locks are, if that is in Redis.
	Backend() (core.Backend, bool)
	// Over returns a Locker of this package over other locks. It has the defaults of this one, over which opts take precedence.
	// An error wraps lockmw.ErrInvalidOption.
	Over(locks core.Locks, kind core.Kind, opts ...lockmw.Option) (lockmw.Locker, error)
}

// New returns a Locker of a kind over the locks of a *lockmw.Client or a *lockmw.Local. It panics if l is nil or was not made by
// its constructor, and if an option is invalid.
func New(l lockmw.Locker, kind core.Kind, opts ...lockmw.Option) Locker {
	if option.IsNil(l) {
		panic(fmt.Errorf("%w: the %T is nil", lockmw.ErrInvalidOption, l))
	}
	of, ok := Of(l)
	if !ok {
		panic(fmt.Errorf("%w: the %T was not made by its constructor", lockmw.ErrInvalidOption, l))
	}
	k, err := of.Over(of.Locks(), kind, opts...)
	if err != nil {
		panic(err)
	}
	return k.(Locker)
}

// Of returns what takes the locks of l, if that is a Locker of this module or embeds one.
func Of(l lockmw.Locker) (Locker, bool) {
	if k, ok := l.(Locker); ok {
		return k, true
	}
	k, ok := inside.PartOf(l).(Locker)
	return k, ok
}

// PolicyOf returns the policy of a call of l with opts. It reports false if that is not known, or an option is invalid.
func PolicyOf(l lockmw.Locker, opts ...lockmw.Option) (p lockmw.Policy, known bool) {
	k, ok := Of(l)
	if !ok || inside.IsEmbedded(l) {
		return p, false
	}
	p, err := k.Policy(opts...)
	return p, err == nil
}
