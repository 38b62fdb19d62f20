package engine

import "github.com/lockmw/go/internal/core"

// reportStall lets the caller know if a hold of this process has been in its way since it began to wait. Then
// it may be its own.
func (c *cohort) reportStall(w *waiter) {
	if c.e.now()-w.startedAt < core.StallAfter {
		return // the Client is being closed
	}
	c.shard.mu.Lock()
	h := c.localHold()
	held := h != nil && h.since <= w.startedAt && w.hold == nil && w.err == nil
	c.shard.mu.Unlock()
	if held {
		w.req.Events.Stalled(core.LocalHold{Request: h.req, Token: h.token, Since: c.e.epoch.Add(h.since)})
	}
}

// localHold returns a hold of the key in this process, nil if none is known.
func (c *cohort) localHold() *hold {
	if plain := c.shard.cohorts[cohortID{key: c.id.key}]; plain != nil && plain.lease != nil {
		return plain.lease.holds.First()
	}
	if others := c.shard.siblings[c.id.key]; others != nil && others.lease != nil {
		return others.lease.holds.First()
	}
	return nil
}
