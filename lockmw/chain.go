package lockmw

import (
	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
)

// A chain is the holds of a context, whose innermost one is given. Implementations of locks ask the context for it when a
// call waits: such a wait may be in a deadlock.
type chain struct {
	innermost *Hold
	scope     core.Scope // nil: all holds count
}

// chainOf returns the chain of the context of h.
func chainOf(h *Hold) core.Chain { return chain{h, core.ScopeOf(h.ctx.parent)} }

// Within implements core.Chain. A context further in has the scope, which includes that of the chain.
func (c chain) Within(scope core.Scope) core.Chain { return chain{c.innermost, scope} }

// Live implements core.Chain. Nobody learns of a loss by it.
func (c chain) Live() (held []core.Held) {
	for h := c.innermost.within(c.scope); h != nil; h = h.outer.within(c.scope) {
		if h.unlocked.Load() || h.lock.backend == nil || h.lock.isLost() {
			continue
		}
		live := core.Held{Hold: h.lock.backend, Key: h.lock.req.Key, Label: h.lock.req.Label}
		if h.limit != nil {
			if clock.Until(h.limit.at) <= 0 {
				continue
			}
			live.Until = h.limit.at.Time()
		}
		held = append(held, live)
	}
	return held
}

// isLost is check without consequences.
func (l *heldLock) isLost() bool {
	l.mu.Lock()
	lost := l.lost != nil
	l.mu.Unlock()
	return lost || l.backend.Expired()
}
