package locklog

import (
	"context"
	"time"

	"github.com/lockmw/go/internal/list"
	"github.com/lockmw/go/internal/observe"
	"github.com/lockmw/go/lockmw"
)

// An attempt is one call for a lock and the hold it leads to. The fields that are not atomic are written
// while it waits, by one goroutine, and read by others only when it holds.
type attempt struct {
	observe.Attempt[reporter, attempt]

	list.Links[*attempt] // among those that wait, or hold, and are not late yet; the mutex of that queue guards the rest
	now                  moment
	queued               bool
}

// A moment is what is known of an attempt while it waits or holds.
type moment struct {
	ctx   context.Context
	call  lockmw.Attempt
	seen  lockmw.Contention // when the wait began
	since time.Time         // of the wait or the hold
}

// newAttempt returns an attempt that waits. It is the context of the call from now on.
func (r *reporter) newAttempt(ctx context.Context, key string) *attempt {
	s := &attempt{}
	s.Init(ctx, r, s, key)
	return s
}

// attemptIn returns the innermost attempt in ctx that r sees, nil if there is none.
func (r *reporter) attemptIn(ctx context.Context) *attempt { return observe.In[attempt](ctx, r) }

func (s *attempt) is(p observe.Phase) bool { return s != nil && s.Is(p) }

// end ends the hold and reports whether it was the first to do so: Lost and Released may be called at
// the same time.
func (r *reporter) end(s *attempt) bool {
	if s == nil || !s.End() {
		return false
	}
	r.holds.remove(s)
	return true
}
