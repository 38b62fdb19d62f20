package locklog

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/list"
	"github.com/lockmw/go/internal/logged"
	"github.com/lockmw/go/internal/loglimit"
	"github.com/lockmw/go/internal/observe"
	"github.com/lockmw/go/lockmw"
)

// New returns an observer that logs to logger, for lockmw.WithObserver: as an option of lockmw.New for all locks of a Client, or
// of single calls. It may be used any number of times. If logger is nil, each line goes to the logger that slog.Default returns
// at that moment. New panics if the value of an option is invalid.
//
// Lines are logged with the context of the attempt or the hold, in which handlers find trace ids. A line for which the logger is
// not enabled costs nothing. If the logger is not enabled for errors when an attempt begins, later lines of that attempt are not
// logged either.
func New(logger *slog.Logger, opts ...Option) *lockmw.Observer {
	r := &reporter{config: newConfig(opts), logger: logger}
	r.waits.after, r.waits.log = r.slowWait, r.stillWaiting
	r.holds.after, r.holds.log = r.longHold, r.stillHeld
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

// A reporter implements one observer.
type reporter struct {
	*config
	logger *slog.Logger // nil: the default one

	waits, holds queue          // attempts to log if they last too long
	silence      loglimit.Limit // for lines about calls that wait for Redis itself
	unavailable  loglimit.Limit // for lines about calls that failed because of Redis
}

func (r *reporter) start(ctx context.Context, a lockmw.Attempt) context.Context {
	outer := r.attemptIn(ctx)
	if outer != nil && outer.Awaits(a.Key) {
		return ctx // the observer is mounted twice, and this is its second callback
	}
	quiet := r.loggerFor(ctx, slog.LevelError) == nil
	if quiet && outer == nil {
		return ctx
	}
	s := &attempt{}
	s.Init(ctx, r, s, a.Key) // it becomes the context of the call
	if quiet {
		s.Enter(observe.Over) // hides the outer attempt from the callbacks of this one
		return s
	}
	r.watch(&r.waits, s, moment{ctx: s, call: a, since: s.Started})
	return s
}

func (r *reporter) contended(ctx context.Context, a lockmw.Attempt, c lockmw.Contention) {
	if s := r.attemptIn(ctx); s.is(observe.Waiting) {
		r.waits.update(s, moment{ctx: ctx, call: a, seen: c, since: s.Started})
	}
}

func (r *reporter) acquired(ctx context.Context, a lockmw.Attempt, g lockmw.Acquisition) context.Context {
	s := r.attemptIn(ctx)
	if !s.is(observe.Waiting) {
		return ctx
	}
	r.waits.remove(s)
	seen := s.now.seen
	s.now.seen = lockmw.Contention{}
	s.Acquire(&g)
	if g.FailedOpen != nil {
		s.Enter(observe.Over)
		r.logUnavailable(ctx, msgFailedOpen, &a, s, seen, g.FailedOpen)
		r.setLogged(ctx)
		return ctx
	}
	s.Enter(observe.Holding)
	r.watch(&r.holds, s, moment{ctx: ctx, call: a, since: time.Now()})
	if s.Waited >= r.slowWait && !lasts(&a) {
		r.logWait(ctx, msgSlowWait, &a, s, seen, nil, 0)
	}
	return ctx
}

func (r *reporter) failed(ctx context.Context, a lockmw.Attempt, err error) {
	s := r.attemptIn(ctx)
	if !s.is(observe.Waiting) {
		return
	}
	s.Enter(observe.Over)
	r.waits.remove(s)
	seen := s.now.seen
	s.Waited = s.WaitedUntil(err)
	if e, ok := errors.AsType[*lockmw.Error](err); ok && len(e.Holders) > 0 {
		seen.Holders = e.Holders
	}
	switch {
	case errors.Is(err, lockmw.ErrUnavailable):
		r.logUnavailable(ctx, msgFailed, &a, s, seen, err)
	case errors.Is(err, lockmw.ErrWrongType):
		r.logWait(ctx, msgFailed, &a, s, seen, err, 0)
	case s.Waited >= r.slowWait && !lasts(&a):
		r.logWait(ctx, msgSlowWait, &a, s, seen, err, 0)
	default:
		return
	}
	r.setLogged(ctx)
}

// setLogged records that no other line is needed, if warnings are logged.
func (r *reporter) setLogged(ctx context.Context) {
	if r.loggerFor(ctx, slog.LevelWarn) != nil {
		logged.Set(ctx)
	}
}

// logUnavailable logs a call that failed because of Redis. It limits the lines for each kind of failure.
func (r *reporter) logUnavailable(ctx context.Context, message string, a *lockmw.Attempt, s *attempt, seen lockmw.Contention, err error) {
	if missed, ok := r.unavailable.Allow(message + loglimit.KindOf(err)); ok {
		r.logWait(ctx, message, a, s, seen, err, missed)
	}
}

func (r *reporter) renewed(ctx context.Context, a lockmw.Attempt, err error) {
	if s := r.attemptIn(ctx); s.is(observe.Holding) && s.BeginsToFail(err) {
		r.logHold(ctx, slog.LevelWarn, msgRenewalFailed, &a, s, s.Held(), nil, err)
	}
}

func (r *reporter) lost(ctx context.Context, a lockmw.Attempt, err error) {
	if s := r.attemptIn(ctx); r.end(s) {
		r.logHold(ctx, slog.LevelError, msgLost, &a, s, s.Held(), nil, err)
	}
}

func (r *reporter) released(ctx context.Context, a lockmw.Attempt, end lockmw.Release) {
	s := r.attemptIn(ctx)
	if !r.end(s) {
		return
	}
	switch {
	case core.IsLoss(end.Err):
		r.logHold(ctx, slog.LevelError, msgLost, &a, s, end.Held, nil, end.Err)
	case end.Err != nil:
		r.logHold(ctx, slog.LevelWarn, msgReleaseFailed, &a, s, end.Held, &end, end.Err)
	case end.Held >= r.longHold && !lasts(&a):
		r.logHold(ctx, slog.LevelWarn, msgLongHold, &a, s, end.Held, &end, nil)
	}
}

// An attempt is one call for a lock and its hold. While it waits, one goroutine writes the fields that are not atomic. Other
// goroutines read them only while it holds.
type attempt struct {
	observe.Attempt[reporter, attempt]

	list.Links[*attempt] // in the queue of waits or of holds, whose mutex guards the following fields
	now                  moment
	queued               bool
}

// A moment is the state of an attempt while it waits or holds.
type moment struct {
	ctx   context.Context
	call  lockmw.Attempt
	seen  lockmw.Contention // when the wait began
	since time.Time         // of the wait or the hold
}

// attemptIn returns the innermost attempt of r in ctx, or nil if there is none.
func (r *reporter) attemptIn(ctx context.Context) *attempt { return observe.In[attempt](ctx, r) }

func (s *attempt) is(p observe.Phase) bool { return s != nil && s.Is(p) }

// end ends the hold, and reports whether this call was the first to do so: Lost and Released may be called concurrently.
func (r *reporter) end(s *attempt) bool {
	if s == nil || !s.End() {
		return false
	}
	r.holds.remove(s)
	return true
}
