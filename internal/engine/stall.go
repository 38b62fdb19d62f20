package engine

import (
	"runtime"
	"sync"
	"weak"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
)

// engines has a weak pointer to each Engine of this process, by the name under which Redis knows its holds.
var engines sync.Map

func (e *Engine) beKnown() {
	engines.Store(e.process, weak.Make(e))
	runtime.AddCleanup(e, func(process string) { engines.Delete(process) }, e.process)
}

// InTheWay implements localq.Line. The server may have named a hold by another Client.
func (c *cohort) InTheWay(*localq.Waiter) *core.LocalHold {
	found := c.e.localHold(c.id.key)
	c.shard.mu.Lock()
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
	return found
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
	local := h.Local()
	return &local
}
