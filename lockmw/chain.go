package lockmw

import (
	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
)

// A chain lists the holds of a context, from the innermost outwards. Implementations of locks get it from the context of a call
// that waits, because a wait of a caller with holds may be part of a deadlock.
type chain struct {
	innermost *Hold
	scope     core.Scope // nil: all holds count
}

// Within implements core.Chain. The scope is that of a context further in, and includes the scope of the chain.
func (c chain) Within(scope core.Scope) core.Chain { return chain{c.innermost, scope} }

// Live implements core.Chain. It does not report a loss that it finds.
func (c chain) Live() (held []core.Held) {
	for h := c.innermost.within(c.scope); h != nil; h = h.outer.within(c.scope) {
		if h.unlocked.Load() || h.lock.backend == nil || h.lock.knownLoss() != nil || h.lock.backend.Expired() {
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
