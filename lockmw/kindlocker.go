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
)

// A kindLocker is a Locker of one kind. It implements everything that all kinds share: re-entry, holds and their contexts,
// options, observers, failing open. The other packages of this module make their Lockers with internal/kinds. Safe for
// concurrent use.
type kindLocker struct {
	locks         core.Locks
	kind          core.Kind
	base          Policy
	unlockTimeout time.Duration
	logger        *slog.Logger    // of WithLogger; nil for the default one
	lines         *loglimit.Limit // limits repeated log lines
	names         *keyed.Kinds
}

var _ Locker = (*kindLocker)(nil)

// overLocks returns a Locker over an implementation of locks. The options are the defaults of its locks. Of the options for
// Clients only WithLogger and WithUnlockTimeout have an effect.
func overLocks(locks core.Locks, kind core.Kind, opts ...ClientOption) (*kindLocker, error) {
	s, err := newSettings(opts)
	if err != nil {
		return nil, err
	}
	return newKindLocker(locks, kind, &s)
}

func newKindLocker(locks core.Locks, kind core.Kind, s *settings) (*kindLocker, error) {
	l := &kindLocker{
		locks: locks, kind: kind, base: s.policy, unlockTimeout: s.engine.UnlockTimeout, logger: s.logger,
		lines: &loglimit.Limit{}, names: &keyed.Kinds{},
	}
	if err := l.checkTimes(l.base.Lease, l.base.MinHold); err != nil {
		return nil, err
	}
	return l, nil
}

// Over implements kinds.Locker.
func (l *kindLocker) Over(locks core.Locks, kind core.Kind, opts ...Option) (Locker, error) {
	of := *l
	of.locks, of.kind = locks, kind
	err := of.base.apply(opts)
	if err == nil {
		err = of.checkWeight(&of.base)
	}
	if err == nil {
		err = of.checkTimes(of.base.Lease, of.base.MinHold)
	}
	return &of, err
}

// TryLock is Lock with WithWait(0).
func (l *kindLocker) TryLock(ctx context.Context, key string, opts ...Option) (context.Context, *Hold, error) {
	return l.Lock(ctx, key, append(slices.Clip(opts), WithWait(0))...)
}

// Logger returns the Client's logger: see Client.Logger.
func (l *kindLocker) Logger() *slog.Logger {
	if l.logger == nil {
		return slog.Default()
	}
	return l.logger
}

// nameOf returns the name of a key's lock in spans, metrics and log lines.
func (l *kindLocker) nameOf(key string, p *Policy) string {
	if p.Name != "" {
		return p.Name
	}
	name, first := l.names.Name(key)
	if first {
		l.Logger().Warn(fmt.Sprintf("lockmw: keys have more than %d kinds; spans and metrics show further kinds as %q: put no ID before the first colon of a key, or set WithName", keyed.MaxKinds, name))
	}
	return name
}

// Locks implements kinds.Locker.
func (l *kindLocker) Locks() core.Locks { return l.locks }

// Kind implements kinds.Locker.
func (l *kindLocker) Kind() core.Kind { return l.kind }

// Backend implements kinds.Locker.
func (l *kindLocker) Backend() (b core.Backend, ok bool) {
	locks, ok := l.locks.(interface{ Backend() core.Backend })
	if ok {
		b = locks.Backend()
		b.Shared = l.kind.Mode == core.Read || l.kind.Permits > 0
	}
	return b, ok
}

// WithRecord implements kinds.Locker.
func (l *kindLocker) WithRecord(claim *core.RecordClaim) Option {
	return Option{kind: optRecord, record: claim}
}

// RecordOf implements kinds.Locker.
func (l *kindLocker) RecordOf(h *Hold, claim *core.RecordClaim) (core.RecordHold, bool) {
	record, ok := h.lock.backend.(core.RecordHold)
	return record, ok && h.lock.req.Record == claim
}
