package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
)

var _ core.TickHold = (*hold)(nil)

// BeginTick implements core.TickHold.
func (h *hold) BeginTick(ctx context.Context, t core.Tick) (core.TickAnswer, time.Time, error) {
	l, c := h.lease, h.lease.c
	var a script.Began
	b := script.Begin{Keys: &c.keys, ID: l.id, Token: h.token, Tick: t}
	err := c.e.insist(ctx, b.Call, func(r *script.Reply) (err error) {
		a, err = r.Began()
		return err
	})
	if err == nil && a.Outcome == script.NotHeld {
		var lost []*hold
		lost, err = h.onGone()
		notifyLost(lost)
	}
	return a.Answer, a.Now, err
}

// onGone deals with an answer that says that the hold is over.
func (h *hold) onGone() (lost []*hold, err error) {
	l, c := h.lease, h.lease.c
	c.shard.mu.Lock()
	defer c.unlock()
	if err := h.ended(); err != nil {
		return nil, err
	}
	return l.lose(errDeleted), errDeleted
}

// MarkTick implements core.TickHold.
func (h *hold) MarkTick(ctx context.Context, t core.Tick) (again bool, err error) {
	c := h.lease.c
	m := script.Mark{Keys: &c.keys, Token: h.token, Tick: t}
	err = c.e.insist(ctx, m.Call, func(r *script.Reply) (err error) {
		again, err = r.Marked()
		return err
	})
	return again, err
}

// insistTimeout is after how long without an answer insist tries again. What is late does no harm.
const insistTimeout = time.Second

// A prepareCall prepares a run of a script.
type prepareCall func(context.Context, *script.Set, func(*script.Reply)) *script.Call

// insist runs a script until read finds no error in its answer, the server is sure to go on refusing, or ctx ends.
func (e *Engine) insist(ctx context.Context, prepare prepareCall, read func(*script.Reply) error) error {
	for pause := minCancelDelay; ; pause = min(2*pause, maxCancelDelay) {
		answers := make(chan *script.Reply, 1)
		try, cancel := context.WithTimeout(ctx, insistTimeout)
		e.sender.Start(prepare(try, e.scripts, func(r *script.Reply) { answers <- r }))
		r, err := answerTo(try, answers)
		cancel()
		if err == nil {
			err = read(r)
		}
		switch {
		case err == nil:
			return nil
		case e.sender.Context().Err() != nil:
			return core.ErrClosed
		case script.IsFinal(err):
			return script.Failure(err)
		case script.IsMoving(err):
			pause = minTryPause
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-e.sender.Context().Done():
			timer.Stop()
			return core.ErrClosed
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w (%w)", script.Failure(err), ctx.Err())
		}
	}
}
