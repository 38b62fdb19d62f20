package lockmw

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/keyed"
	"github.com/lockmw/go/internal/loglimit"
	"github.com/lockmw/go/internal/option"
)

// A KindLocker is not for users of this module, but what fairlock and rwlock are made of: a Locker of one kind.
// It has what all kinds share: re-entry, holds and their contexts,
// options, observers, failing open. Packages of this module make one with Client.OfKind or OverLocks and
// show their users as much of it as the kind has. Safe for concurrent use.
type KindLocker struct {
	locks         core.Locks
	kind          core.Kind
	base          Policy
	unlockTimeout time.Duration
	logger        *slog.Logger    // WithLogger's; nil: the default one
	lines         *loglimit.Limit // of each kind one in a while
	names         *keyed.Kinds
}

var _ Locker = (*KindLocker)(nil)

// OverLocks is not for users of this module: no other module can name the types of its parameters. It returns a
// Locker over an implementation of locks. The options are the defaults of its locks;
// of those that are not an Option only WithLogger and WithUnlockTimeout matter. An error wraps
// ErrInvalidOption. For a backend of your own write a LockerFunc with NewHold.
func OverLocks(locks core.Locks, kind core.Kind, opts ...ClientOption) (*KindLocker, error) {
	if option.IsNil(locks) {
		return nil, fmt.Errorf("%w: the implementation of locks is nil", ErrInvalidOption)
	}
	s, err := newSettings(opts)
	if err != nil {
		return nil, err
	}
	return newKindLocker(locks, kind, &s)
}

func newKindLocker(locks core.Locks, kind core.Kind, s *settings) (*KindLocker, error) {
	l := &KindLocker{
		locks: locks, kind: kind, base: s.policy, unlockTimeout: s.engine.Unlock, logger: s.logger,
		lines: &loglimit.Limit{}, names: &keyed.Kinds{},
	}
	if err := l.checkTimes(l.base.Lease, l.base.MinHold); err != nil {
		return nil, err
	}
	return l, nil
}

// OfKind is not for users of this module, see OverLocks. It returns a Locker of another kind over the Client's locks, which ends with the Client's Close.
// The options take precedence over the Client's. An error wraps ErrInvalidOption.
func (c *Client) OfKind(kind core.Kind, opts ...Option) (*KindLocker, error) {
	if c == nil {
		return nil, fmt.Errorf("%w: the Client is nil", ErrInvalidOption)
	}
	return c.locker.ofKind(kind, opts)
}

func (l *KindLocker) ofKind(kind core.Kind, opts []Option) (*KindLocker, error) {
	of := *l
	of.kind = kind
	err := of.base.apply(opts)
	if err == nil {
		err = of.checkWeight(&of.base)
	}
	if err == nil {
		err = of.checkTimes(of.base.Lease, of.base.MinHold)
	}
	return &of, err
}

// Over is not for users of this module, see OverLocks. It returns a Locker over other locks that has the options of the
// Client; those given here take precedence. An error wraps ErrInvalidOption.
func (c *Client) Over(locks core.Locks, kind core.Kind, opts ...Option) (*KindLocker, error) {
	l := *c.locker
	l.locks = locks
	return l.ofKind(kind, opts)
}

// Lock implements Locker.
func (l *KindLocker) Lock(ctx context.Context, key string, opts ...Option) (context.Context, *Hold, error) {
	return l.lock(ctx, key, opts)
}

// TryLock is Lock with WithWait(0).
func (l *KindLocker) TryLock(ctx context.Context, key string, opts ...Option) (context.Context, *Hold, error) {
	return l.lock(ctx, key, append(slices.Clip(opts), WithWait(0)))
}

// Logger returns the Client's logger: see Client.Logger.
func (l *KindLocker) Logger() *slog.Logger {
	if l.logger == nil {
		return slog.Default()
	}
	return l.logger
}

// nameOf returns the name of a key's lock in spans, metrics and log lines.
func (l *KindLocker) nameOf(key string, p *Policy) string {
	if p.Name != "" {
		return p.Name
	}
	name, first := l.names.Name(key)
	if first {
		l.Logger().Warn(fmt.Sprintf("lockmw: keys of more than %d kinds: spans and metrics call the others %q; the kind stands before the first colon of a key and has no ID, or WithName says the name", keyed.MaxKinds, name))
	}
	return name
}

// Backend is not for users of this module: it tells asynqmw where the locks live, if that is in Redis.
func (l *KindLocker) Backend() (b core.Backend, ok bool) {
	locks, ok := l.locks.(interface{ Backend() core.Backend })
	if ok {
		b = locks.Backend()
		b.Shared = l.kind.Mode == core.Read || l.kind.Permits > 0
	}
	return b, ok
}

// Downgrade makes h, a write hold that l took, a read hold: see rwlock.Locker.
func (l *KindLocker) Downgrade(ctx context.Context, h *Hold) error { return l.downgrade(ctx, h) }
