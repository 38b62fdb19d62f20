package lockmw

import (
	"context"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/lockmw/go/internal/core"
)

// An observation calls the observers of one attempt and its hold.
type observation struct {
	attempt   Attempt
	observers []*Observer
	ctx       context.Context // returned by Start, then by Acquired
	since     time.Time       // when the lock was acquired
	logger    *slog.Logger
}

// newObservation returns an observation that has not started.
func (l *kindLocker) newObservation(p *Policy, op, key string, mode core.Mode) *observation {
	a := Attempt{Key: key, Name: l.nameOf(key, p), Op: op, Mode: mode.String(), Policy: *p}
	return &observation{attempt: a, observers: p.Observers, logger: l.Logger()}
}

// start calls the observers' Start. An observer that panics there gets no more callbacks of the attempt, because they would find
// the context of another attempt.
func (obs *observation) start(ctx context.Context) {
	obs.ctx = ctx
	for _, o := range obs.attempt.Policy.Observers {
		if o.Start == nil {
			continue
		}
		started := obs.guard(o, func(o *Observer) { obs.ctx = orElse(o.Start(obs.ctx, obs.attempt), obs.ctx) })
		if !started {
			obs.observers = slices.DeleteFunc(slices.Clone(obs.observers), func(other *Observer) bool { return other == o })
		}
	}
}

// each calls f for every observer. It logs a panic and continues.
func (obs *observation) each(f func(*Observer)) {
	for _, o := range obs.observers {
		obs.guard(o, f)
	}
}

// guard calls f, and reports whether f returned without a panic.
func (obs *observation) guard(o *Observer, f func(*Observer)) (returned bool) {
	defer func() {
		if v := recover(); v != nil {
			obs.logger.Error("lockmw: an observer panicked", "panic", v, "stack", string(debug.Stack()))
		}
	}()
	f(o)
	return true
}

func orElse(ctx, otherwise context.Context) context.Context {
	if ctx == nil {
		return otherwise
	}
	return ctx
}

func (obs *observation) traceParent() (trace string) {
	obs.each(func(o *Observer) {
		if o.TraceParent != nil && trace == "" {
			trace = o.TraceParent(obs.ctx)
		}
	})
	return trace
}

func (obs *observation) contended(c Contention) {
	obs.each(func(o *Observer) {
		if o.Contended != nil {
			o.Contended(obs.ctx, obs.attempt, c)
		}
	})
}

// wantsMoves reports whether an observer has a Waiting callback.
func (obs *observation) wantsMoves() bool {
	return slices.ContainsFunc(obs.observers, func(o *Observer) bool { return o.Waiting != nil })
}

func (obs *observation) waiting(c Contention) {
	obs.each(func(o *Observer) {
		if o.Waiting != nil {
			o.Waiting(obs.ctx, obs.attempt, c)
		}
	})
}

func (obs *observation) acquired(g Acquisition) {
	obs.each(func(o *Observer) {
		if o.Acquired != nil {
			obs.ctx = orElse(o.Acquired(obs.ctx, obs.attempt, g), obs.ctx)
		}
	})
}

func (obs *observation) failed(err error) {
	obs.each(func(o *Observer) {
		if o.Failed != nil {
			o.Failed(obs.ctx, obs.attempt, err)
		}
	})
}

func (obs *observation) renewed(err error) {
	obs.each(func(o *Observer) {
		if o.Renewed != nil {
			o.Renewed(obs.ctx, obs.attempt, obs.wrap("renew", err))
		}
	})
}

func (obs *observation) lost(err error) {
	obs.each(func(o *Observer) {
		if o.Lost != nil {
			o.Lost(obs.ctx, obs.attempt, obs.wrap("hold", err))
		}
	})
}

// wrap makes err an *Error, because observers get no other errors.
func (obs *observation) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Key: obs.attempt.Key, Label: obs.attempt.Policy.Label, Err: err}
}

func (obs *observation) released(r Release) {
	r.Err = obs.wrap("unlock", r.Err)
	obs.each(func(o *Observer) {
		if o.Released != nil {
			o.Released(obs.ctx, obs.attempt, r)
		}
	})
}

// ReportIdempotent implements kinds.Locker.
func (l *kindLocker) ReportIdempotent(ctx context.Context, key string, p Policy, call IdempotentCall) {
	obs := l.newObservation(&p, "idempotent", key, l.kind.Mode)
	obs.each(func(o *Observer) {
		if o.Idempotent != nil {
			o.Idempotent(ctx, obs.attempt, call)
		}
	})
}
