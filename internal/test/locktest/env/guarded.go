package env

import (
	"sync"
	"sync/atomic"

	"github.com/lockmw/go/internal/test/locktest/judge"
)

// A Ledger is what a lock guards: it takes no entry with an older token than the last.
type Ledger struct {
	mu   sync.Mutex
	last int64
}

func (l *Ledger) Write(token int64) (accepted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if token < l.last {
		return false
	}
	l.last = token
	return true
}

// A Room is what a lock guards: many who read may be inside, or one who does not.
type Room struct{ inside atomic.Int64 }

// whole is what one inside counts who does not read.
const whole = 1 << 32

// Enter returns a function that leaves again.
func (r *Room) Enter(e *Env, h *judge.Held) (leave func()) {
	e.T.Helper()
	n := int64(whole)
	if h.Reads {
		n = 1
	}
	if now := r.inside.Add(n); now > whole || now < whole && !h.Reads {
		e.T.Errorf("%d read and %d do not, at once", now%whole, now/whole)
	}
	return func() { r.inside.Add(-n) }
}
