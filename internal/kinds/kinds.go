// Package kinds makes the Lockers of fairlock, rwlock, semaphore and redlock, with everything that all kinds share. Each of
// these packages exposes the part that its kind has. Package lockmw implements them.
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

// A Locker takes locks of one kind. It has re-entry, holds with contexts, options, observers and failing open.
type Locker interface {
	lockmw.Locker
	TryLock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error)
	// Downgrade turns a write hold of the Locker into a read hold: see rwlock.Locker.
	Downgrade(ctx context.Context, h *lockmw.Hold) error
	Logger() *slog.Logger
	// Locks returns the implementation, and Kind the kind of its locks. Policy returns the policy of calls with opts, with the Locker's defaults.
	Locks() core.Locks
	Kind() core.Kind
	Policy(opts ...lockmw.Option) (lockmw.Policy, error)
	// WithRecord returns an option for a call that opens the record of its key. RecordOf returns that hold, or false if h is not the
	// hold of such a call.
	WithRecord(claim *core.RecordClaim) lockmw.Option
	RecordOf(h *lockmw.Hold, claim *core.RecordClaim) (core.RecordHold, bool)
	// ReportIdempotent calls Idempotent of the observers of p.
	ReportIdempotent(ctx context.Context, key string, p lockmw.Policy, call lockmw.IdempotentCall)
	// Backend returns the location of the locks; false if they are not in Redis.
	Backend() (core.Backend, bool)
	// Over returns a Locker of this package over other locks. It has the defaults of this one; opts take precedence over them. An
	// error wraps lockmw.ErrInvalidOption.
	Over(locks core.Locks, kind core.Kind, opts ...lockmw.Option) (lockmw.Locker, error)
}

// New returns a Locker of a kind over the locks of a *lockmw.Client or a *lockmw.Local. It panics if l is nil or was not made
// by its constructor, or if an option is invalid.
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

// Of returns the Locker that takes the locks of l; false if l is not a Locker of this module and embeds none.
func Of(l lockmw.Locker) (Locker, bool) {
	if k, ok := l.(Locker); ok {
		return k, true
	}
	k, ok := inside.PartOf(l).(Locker)
	return k, ok
}

// PolicyOf returns the policy of a call of l with opts; false if it is unknown, or an option is invalid.
func PolicyOf(l lockmw.Locker, opts ...lockmw.Option) (p lockmw.Policy, known bool) {
	k, ok := Of(l)
	if !ok || inside.IsEmbedded(l) {
		return p, false
	}
	p, err := k.Policy(opts...)
	return p, err == nil
}
