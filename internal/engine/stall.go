package engine

import (
	"runtime"
	"sync"
	"weak"

	"github.com/lockmw/go/internal/core"
)

// engines has a weak pointer to each Engine of this process, by the name under which Redis knows its holds.
var engines sync.Map

func (e *Engine) beKnown() {
	engines.Store(e.process, weak.Make(e))
	runtime.AddCleanup(e, func(process string) { engines.Delete(process) }, e.process)
}

// reportStall lets the caller know if a hold of this process has been in its way since it began to wait. Then
// it may be its own.
func (c *cohort) reportStall(w *waiter) {
	if c.e.now()-w.startedAt < core.StallAfter {
		return // the Client is being closed
	}
	if w.req.Permits > 1 {
		return // others have permits, too
	}
	found := c.e.localHold(c.id.key)
	c.shard.mu.Lock()
	waits := w.hold == nil && w.err == nil
	var seen []core.Holder
	if c.request != nil {
		seen = c.request.holders
	}
	c.shard.mu.Unlock()
	for _, h := range seen {
		if other, ok := engines.Load(h.Process); ok && found == nil {
			if e := other.(weak.Pointer[Engine]).Value(); e != nil {
				found = e.localHold(c.id.key)
			}
		}
	}
	if waits && found != nil && !found.Since.After(c.e.time(w.startedAt)) {
		w.req.Events.Stalled(*found)
	}
}

// localHold returns a hold of the key by this Client, nil if none is known.
func (e *Engine) localHold(key string) *core.LocalHold {
	sh := e.shardOf(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	var l *lease
	if plain := sh.cohorts[cohortID{key: key}]; plain != nil && plain.lease != nil {
		l = plain.lease
	} else if others := sh.siblings[key]; others != nil {
		l = others.lease
	}
	if l == nil {
		return nil
	}
	h := l.holds.First()
	if h == nil {
		return nil
	}
	return &core.LocalHold{Request: h.req, Token: h.token, Since: e.time(h.since)}
}
