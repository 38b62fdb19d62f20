package locklog

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/lockmw/go/lockmw"
)

// New returns an observer that logs to logger, to be mounted with lockmw.WithObserver: at a Client for
// all its locks, or at a call. It may be mounted at any number of places. If logger is nil, each line
// goes to what slog.Default returns then. Lines are logged with the context of the attempt or the hold,
// where handlers find trace ids. Nothing is built for a line that the logger is not enabled for; of an
// attempt that begins while it is not even enabled for errors, nothing is logged later either. New
// panics if an option's value is invalid.
func New(logger *slog.Logger, opts ...Option) *lockmw.Observer {
	r := &reporter{config: newConfig(opts), logger: logger}
	return &lockmw.Observer{
		Start:     r.start,
		Contended: r.contended,
		Acquired:  r.acquired,
		Failed:    r.failed,
		Renewed:   r.renewed,
		Lost:      r.lost,
		Released:  r.released,
	}
}

// A reporter is what is behind one observer.
type reporter struct {
	*config
	logger *slog.Logger // nil: the default one
}

func (r *reporter) start(ctx context.Context, _ lockmw.Attempt) context.Context {
	outer := r.attemptIn(ctx)
	if outer.is(waiting) {
		return ctx // the observer is mounted twice and has been told
	}
	quiet := r.loggerFor(ctx, slog.LevelError) == nil
	if quiet && outer == nil {
		return ctx
	}
	s := &attempt{Context: ctx, reporter: r, started: time.Now()}
	if quiet {
		s.phase.Store(over) // it hides the one around it, which this call does not concern
	}
	return s
}

func (r *reporter) contended(ctx context.Context, _ lockmw.Attempt, c lockmw.Contention) {
	if s := r.attemptIn(ctx); s.is(waiting) {
		s.seen = c
	}
}

func (r *reporter) acquired(ctx context.Context, a lockmw.Attempt, g lockmw.Grant) context.Context {
	s := r.attemptIn(ctx)
	if !s.is(waiting) {
		return ctx
	}
	seen := s.seen
	s.seen, s.waited = lockmw.Contention{}, g.Waited
	if g.Hold != nil {
		s.token = g.Hold.Token()
	}
	if g.FailedOpen != nil {
		s.phase.Store(over)
		r.logWait(ctx, msgFailedOpen, &a, s, seen, g.FailedOpen)
		return ctx
	}
	s.phase.Store(holding)
	if s.waited >= r.slowWait {
		r.logWait(ctx, msgSlowWait, &a, s, seen, nil)
	}
	return ctx
}

func (r *reporter) failed(ctx context.Context, a lockmw.Attempt, err error) {
	s := r.attemptIn(ctx)
	if !s.is(waiting) {
		return
	}
	s.phase.Store(over)
	s.waited = time.Since(s.started)
	if e, ok := errors.AsType[*lockmw.Error](err); ok {
		if e.Waited > 0 {
			s.waited = e.Waited
		}
		if len(e.Holders) > 0 {
			s.seen.Holders = e.Holders
		}
	}
	switch {
	case errors.Is(err, lockmw.ErrUnavailable), errors.Is(err, lockmw.ErrWrongType):
		r.logWait(ctx, msgFailed, &a, s, s.seen, err)
	case s.waited >= r.slowWait:
		r.logWait(ctx, msgSlowWait, &a, s, s.seen, err)
	}
}

func (r *reporter) renewed(ctx context.Context, a lockmw.Attempt, err error) {
	s := r.attemptIn(ctx)
	if !s.is(holding) || isLoss(err) { // which Lost is told of
		return
	}
	held := s.held()
	// Renewals are tried ever faster towards the end of a lease: one line has to do.
	if failing := err != nil; s.failing.Swap(failing) != failing && failing {
		r.logHold(ctx, slog.LevelWarn, msgRenewalFailed, &a, s, held, nil, err)
	}
	if held >= r.longHold && !s.told.Swap(true) {
		r.logHold(ctx, slog.LevelWarn, msgStillHeld, &a, s, held, nil, nil)
	}
}

func (r *reporter) lost(ctx context.Context, a lockmw.Attempt, err error) {
	if s := r.attemptIn(ctx); s.ends() {
		r.logHold(ctx, slog.LevelError, msgLost, &a, s, s.held(), nil, err)
	}
}

func (r *reporter) released(ctx context.Context, a lockmw.Attempt, end lockmw.Release) {
	s := r.attemptIn(ctx)
	if !s.ends() {
		return
	}
	switch {
	case isLoss(end.Err):
		r.logHold(ctx, slog.LevelError, msgLost, &a, s, end.Held, nil, end.Err)
	case end.Err != nil:
		r.logHold(ctx, slog.LevelWarn, msgReleaseFailed, &a, s, end.Held, &end, end.Err)
	case end.Held >= r.longHold:
		r.logHold(ctx, slog.LevelWarn, msgLongHold, &a, s, end.Held, &end, nil)
	}
}

func isLoss(err error) bool {
	return errors.Is(err, lockmw.ErrLost) || errors.Is(err, lockmw.ErrClosed)
}
