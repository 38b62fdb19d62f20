package engine

import (
	"cmp"
	"context"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/transport"
)

var _ core.TickHold = (*hold)(nil)

// BeginTick implements core.TickHold.
func (h *hold) BeginTick(ctx context.Context, t core.Tick) (core.TickAnswer, time.Time, error) {
	l, c := h.lease, h.lease.c
	var a script.Began
	b := script.Begin{Keys: &c.keys, ID: l.id, Token: h.Token(), Tick: t}
	err := c.e.insist(ctx, unended, b.Call, func(r *transport.Reply) (again bool, err error) {
		a, err = script.BeginAnswer(r)
		if err == nil && a.Outcome == script.Done && a.Answer == core.TickBegun {
			err = r.Few // other answers rest on nothing that this run has written
		}
		return !transport.IsFinal(err), transport.Failure(err)
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
	if err := h.Ended(); err != nil {
		return nil, err
	}
	return l.lose(errDeleted), errDeleted
}

// MarkTick implements core.TickHold.
func (h *hold) MarkTick(ctx context.Context, t core.Tick) (again bool, err error) {
	c := h.lease.c
	m := script.Mark{Keys: &c.keys, Token: h.Token(), Tick: t}
	err = c.e.insist(ctx, unended, m.Call, func(r *transport.Reply) (tryAgain bool, err error) {
		again, err = script.MarkAnswer(r)
		err = cmp.Or(err, r.Few)
		return !transport.IsFinal(err), transport.Failure(err)
	})
	return again, err
}
