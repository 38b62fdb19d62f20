package lockmw

import (
	"time"

	"github.com/lockmw/go/internal/core"
)

// A chain is the holds of a context, whose innermost one is given. Implementations of locks ask the context for it when a
// call waits: such a wait may be in a deadlock.
type chain struct{ innermost *Hold }

// Live implements core.Chain. Nobody learns of a loss by it.
func (c chain) Live() (held []core.Held) {
	for h := c.innermost; h != nil; h = h.outer {
		if h.unlocked.Load() || h.lock.backend == nil || h.lock.isLost() {
			continue
		}
		live := core.Held{Hold: h.lock.backend, Key: h.lock.req.Key, Label: h.lock.req.Label}
		if h.limit != nil {
			live.Until = h.limit.at
			if !time.Now().Before(live.Until) {
				continue
			}
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
