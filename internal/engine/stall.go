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
	found := c.e.localHold(c.key)
	c.shard.mu.Lock()
	var seen []core.Holder
	if c.request != nil {
		seen = c.request.holders
	}
	c.shard.mu.Unlock()
	for _, h := range seen {
		if other, ok := engines.Load(h.Process); ok && found == nil {
			if e := other.(weak.Pointer[Engine]).Value(); e != nil {
				found = e.localHold(c.key)
			}
		}
	}
	return found
}
