package engine

import (
	"context"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/transport"
)

// Downgrade implements core.Hold.
func (h *hold) Downgrade(ctx context.Context) error {
	l, c := h.lease, h.lease.c
	c.shard.mu.Lock()
	if err := h.Ended(); err != nil {
		c.shard.mu.Unlock()
		return err
	}
	l.mode = core.Read // from here on it may not exclude readers
	if l.run != nil {
		l.run.takeOff() // else readers would wait for those who were served
	}
	c.shard.mu.Unlock()
	d := script.Downgrade{Keys: &c.keys, ID: l.id}
	return c.e.insist(ctx, h.gone, d.Call, func(a *transport.Reply) (again bool, err error) {
		lost, err := h.onDowngraded(a)
		notifyLost(lost)
		return isPassing(a), err
	})
}

// onDowngraded deals with the answer to downgrade.lua.
func (h *hold) onDowngraded(a *transport.Reply) (lost []*hold, err error) {
	l, c := h.lease, h.lease.c
	c.shard.mu.Lock()
	defer c.unlock()
	if err := h.Ended(); err != nil {
		return nil, err
	}
	outcome, failed := script.DowngradeAnswer(a)
	switch {
	case failed != nil:
		return nil, transport.Failure(failed)
	case outcome == script.NotHeld:
		return l.lose(errDeleted), errDeleted
	case outcome == script.More:
		c.e.settle(c.keys, false)
	}
	return nil, nil
}
