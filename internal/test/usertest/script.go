package usertest

import (
	"context"

	"github.com/lockmw/go/lockmw"
)

// A Script calls an observer step by step, for events that a Local does not produce.
type Script struct {
	lockmw.Attempt
	Ctx context.Context // of the attempt, later of the hold, as the observer returned it

	observer *lockmw.Observer
}

// NewScript starts an attempt whose caller has ctx.
func NewScript(ctx context.Context, o *lockmw.Observer) *Script {
	a := lockmw.Attempt{Key: "item:7", Name: "item", Op: "lock", Mode: "exclusive"}
	return &Script{Attempt: a, Ctx: o.Start(ctx, a), observer: o}
}

// Contended reports that the attempt has to wait.
func (s *Script) Contended(c lockmw.Contention) { s.observer.Contended(s.Ctx, s.Attempt, c) }

// Failed reports that the attempt ended without the lock.
func (s *Script) Failed(err error) { s.observer.Failed(s.Ctx, s.Attempt, err) }

// Acquired reports that the attempt acquired the lock.
func (s *Script) Acquired(g lockmw.Acquisition) { s.Ctx = s.observer.Acquired(s.Ctx, s.Attempt, g) }

// Renewed reports a renewal of the hold.
func (s *Script) Renewed(err error) { s.observer.Renewed(s.Ctx, s.Attempt, err) }

// Lost reports the loss of the hold.
func (s *Script) Lost(err error) { s.observer.Lost(s.Ctx, s.Attempt, err) }

// Released reports the release of the hold.
func (s *Script) Released(r lockmw.Release) { s.observer.Released(s.Ctx, s.Attempt, r) }

// Idempotent reports a call of package idempotency by the same caller.
func (s *Script) Idempotent(call lockmw.IdempotentCall) {
	a := s.Attempt
	a.Op = "idempotent"
	s.observer.Idempotent(s.Ctx, a, call)
}
