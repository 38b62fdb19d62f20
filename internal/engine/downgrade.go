package engine

import (
	"cmp"
	"context"
	"fmt"

	"github.com/lockmw/go/internal/core"
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
	answers := make(chan *reply, 1)
	keys := c.name.keys()
	c.e.caller.start(newCall(ctx, c.e.scripts.downgrade, keys[:], []any{l.id.String()}, func(a *reply) { answers <- a }))
	var a *reply
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
func (g *grant) wasDowngraded(a *reply) (lost []*grant, err error) {
	l, c := g.lease, g.lease.c
	c.shard.mu.Lock()
	defer c.unlock()
	kind := a.int()
	switch {
	case g.lost != nil:
		return nil, g.lost
	case g.over:
		return nil, core.ErrNotHeld
	case a.err != nil:
		return nil, failure(a.err)
	case kind == 0:
		err = fmt.Errorf("%w: the server has it no more", core.ErrLost)
		return l.end(err), err
	case kind == 2:
		c.e.settle(c.name)
	}
	return nil, nil
}
