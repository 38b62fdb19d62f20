package lockevents

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/observe"
	"github.com/lockmw/go/lockmw"
)

// An attempt is one call for a lock and its hold.
type attempt struct {
	observe.Attempt[Recorder, attempt]
	waits atomic.Bool // that it waits has been recorded
}

// Observer returns an observer that records the events of locks, for lockmw.WithObserver: as an option of New for all locks of a
// Client, or of single calls. It may be used any number of times.
func (r *Recorder) Observer() *lockmw.Observer {
	r.mustBeMade() // here, because a panic in a callback would not be seen
	return &lockmw.Observer{
		Start: r.start, Contended: r.contended, Acquired: r.acquired, Failed: r.failed, Renewed: r.renewed, Lost: r.lost, Released: r.released,
	}
}

// start begins an attempt. If two observers of one Recorder are mounted, both use the second attempt: the first of two callbacks
// changes it, and the second does nothing.
func (r *Recorder) start(ctx context.Context, a lockmw.Attempt) context.Context {
	s := &attempt{}
	s.Init(ctx, r, s, a.Key)
	return s
}

// in returns the attempt of a callback if it is in phase p, otherwise nil.
func (r *Recorder) in(ctx context.Context, p observe.Phase) *attempt {
	if s := observe.In[attempt](ctx, r); s != nil && s.Is(p) {
		return s
	}
	return nil
}

// event returns an event of a call. err is the reason for it; nil: there is none.
func event(kind Kind, a *lockmw.Attempt, s *attempt, err error) Event {
	e := Event{Kind: kind, Key: a.Key, Op: a.Op, Mode: a.Mode, Label: a.Policy.Label, Token: s.Token}
	if err != nil {
		e.Err = observe.Reason(err).Error()
	}
	return e
}

func (r *Recorder) contended(ctx context.Context, a lockmw.Attempt, c lockmw.Contention) {
	s := r.in(ctx, observe.Waiting)
	if s == nil || s.waits.Swap(true) {
		return
	}
	e := event(Waits, &a, s, nil)
	e.Behind.Position = c.Position
	if len(c.Holders) > 0 {
		h := &c.Holders[0]
		e.Behind.Process, e.Behind.Label, e.Behind.Token = h.Process, h.Label, h.Token
	}
	r.record(e)
}

func (r *Recorder) acquired(ctx context.Context, a lockmw.Attempt, g lockmw.Acquisition) context.Context {
	s := r.in(ctx, observe.Waiting)
	if s == nil {
		return ctx
	}
	s.Acquire(&g)
	if g.FailedOpen != nil {
		s.Enter(observe.Over)
		e := event(FailedOpen, &a, s, g.FailedOpen)
		e.Waited = g.Waited
		r.record(e)
		return ctx
	}
	s.Enter(observe.Holding)
	e := event(Acquired, &a, s, nil)
	e.Waited, e.Contended = g.Waited, g.Contended
	r.record(e)
	return ctx
}

func (r *Recorder) failed(ctx context.Context, a lockmw.Attempt, err error) {
	s := r.in(ctx, observe.Waiting)
	if s == nil {
		return
	}
	s.Enter(observe.Over)
	e := event(Failed, &a, s, err)
	e.Waited, e.Outcome = s.WaitedUntil(err), observe.OutcomeOf(err).String()
	r.record(e)
}

func (r *Recorder) renewed(ctx context.Context, a lockmw.Attempt, err error) {
	if s := r.in(ctx, observe.Holding); s != nil && s.BeginsToFail(err) {
		r.record(event(RenewalFailed, &a, s, err))
	}
}

func (r *Recorder) lost(ctx context.Context, a lockmw.Attempt, err error) {
	if s := observe.In[attempt](ctx, r); s != nil && s.End() {
		r.recordEnd(Lost, &a, s, s.Held(), err)
	}
}

func (r *Recorder) released(ctx context.Context, a lockmw.Attempt, end lockmw.Release) {
	s := observe.In[attempt](ctx, r)
	if s == nil || !s.End() {
		return
	}
	kind := Released
	if core.IsLoss(end.Err) {
		kind = Lost
	}
	r.recordEnd(kind, &a, s, end.Held, end.Err)
}

func (r *Recorder) recordEnd(kind Kind, a *lockmw.Attempt, s *attempt, held time.Duration, err error) {
	e := event(kind, a, s, err)
	e.Held = held
	r.record(e)
}
