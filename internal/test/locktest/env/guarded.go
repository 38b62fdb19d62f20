package env

import (
	"sync"
	"sync/atomic"

	"github.com/lockmw/go/internal/test/recording"
)

// A Ledger is a store guarded by a lock: it refuses a token older than its last one.
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

// A Room is a resource guarded by a lock. It admits many readers, or one writer.
type Room struct{ inside atomic.Int64 }

// whole is the count of one writer inside.
const whole = 1 << 32

// Enter records that h's holder is inside, until leave is called.
func (r *Room) Enter(e *Env, h *recording.Held) (leave func()) {
	e.T.Helper()
	n := int64(whole)
	if h.Reads {
		n = 1
	}
	if now := r.inside.Add(n); now > whole || now < whole && !h.Reads {
		e.T.Errorf("%d readers and %d writers are inside together", now%whole, now/whole)
	}
	return func() { r.inside.Add(-n) }
}
