package locklog

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/lockmw/go/internal/list"
	"github.com/lockmw/go/internal/observe"
	"github.com/lockmw/go/lockmw"
)

// A queue is the holds that are not long yet, in the order in which they began. They become long in this order,
// so one timer is enough for all. Safe for concurrent use.
type queue struct {
	mu    sync.Mutex
	holds list.List[*attempt]
	armed bool // a timer is set
}

// watch has a hold logged when it has lasted for as long as is to be logged.
func (r *reporter) watch(ctx context.Context, a *lockmw.Attempt, s *attempt) {
	if r.longHold == 0 || r.longHold == lockmw.Forever || r.loggerFor(ctx, slog.LevelWarn) == nil {
		return
	}
	r.lasting.mu.Lock()
	defer r.lasting.mu.Unlock()
	s.ctx, s.call, s.since, s.queued = ctx, *a, time.Now(), true
	r.lasting.holds.Push(s)
	if !r.lasting.armed {
		r.lasting.armed = true
		time.AfterFunc(r.longHold, r.logLasting)
	}
}

// unwatch takes a hold off the queue.
func (r *reporter) unwatch(s *attempt) {
	r.lasting.mu.Lock()
	defer r.lasting.mu.Unlock()
	if s.queued {
		s.queued = false
		r.lasting.holds.Remove(s)
	}
}

// logLasting logs the holds that have become long, and sets the timer for the next.
func (r *reporter) logLasting() {
	for _, s := range r.takeLong() {
		if s.is(observe.Holding) {
			r.logHold(s.ctx, slog.LevelWarn, msgStillHeld, &s.call, s, s.held(), nil, nil)
		}
	}
}

// takeLong takes the holds that have become long off the queue.
func (r *reporter) takeLong() (long []*attempt) {
	q := &r.lasting
	q.mu.Lock()
	defer q.mu.Unlock()
	q.armed = false
	for s := q.holds.First(); s != nil; s = q.holds.First() {
		if left := r.longHold - time.Since(s.since); left > 0 {
			q.armed = true
			time.AfterFunc(left, r.logLasting)
			break
		}
		s.queued = false
		q.holds.Remove(s)
		long = append(long, s)
	}
	return long
}
