package engine

import (
	"cmp"
	"context"
	"fmt"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
)

// Downgrade implements core.Grant.
func (g *grant) Downgrade(ctx context.Context) error {
	l, c := g.lease, g.lease.c
	c.shard.mu.Lock()
	if g.over {
		defer c.shard.mu.Unlock()
		return cmp.Or(g.lost, core.ErrNotHeld)
	}
	l.mode = core.Read // from here on it excludes nobody who reads
	c.shard.mu.Unlock()
	answers := make(chan *script.Reply, 1)
	d := script.Downgrade{Keys: &c.name, ID: l.id}
	c.e.sender.Start(d.Call(ctx, c.e.scripts, func(a *script.Reply) { answers <- a }))
	var a *script.Reply
	select {
	case a = <-answers:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", core.ErrUnavailable, ctx.Err())
	}
	lost, err := g.wasDowngraded(a)
	tellLost(lost)
	return err
}

// wasDowngraded deals with the answer to downgrade.lua.
func (g *grant) wasDowngraded(a *script.Reply) (lost []*grant, err error) {
	l, c := g.lease, g.lease.c
	c.shard.mu.Lock()
	defer c.unlock()
	outcome, failed := a.Downgraded()
	switch {
	case g.lost != nil:
		return nil, g.lost
	case g.over:
		return nil, core.ErrNotHeld
	case failed != nil:
		return nil, script.Failure(failed)
	case outcome == script.NotHeld:
		err = fmt.Errorf("%w: the server has it no more", core.ErrLost)
		return l.end(err), err
	case outcome == script.More:
		c.e.settle(c.name)
	}
	return nil, nil
}
