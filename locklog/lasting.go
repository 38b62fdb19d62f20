package locklog

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/lockmw/go/internal/list"
	"github.com/lockmw/go/internal/observe"
	"github.com/lockmw/go/lockmw"
)

// A queue contains attempts that wait, or that hold, and are not late yet, in the order in which they began to. They become late
// in this order, so one timer is enough for all. Safe for concurrent use.
type queue struct {
	after time.Duration // an attempt is late after that time
	log   func(*attempt, *moment)

	mu       sync.Mutex
	attempts list.List[*attempt]
	armed    bool // a timer is set
}

// lasts reports whether a is a call of lockmw.Lead or lockmw.Once, whose long waits and holds are normal and not logged: a leader
// holds for as long as it lives, a job for as long as it runs, and the other replicas wait meanwhile.
func lasts(a *lockmw.Attempt) bool { return a.Op == "lead" || a.Op == "once" }

// watch adds an attempt to q, which logs it when it is late, unless it need not be logged.
func (r *reporter) watch(q *queue, s *attempt, m moment) {
	if q.after > 0 && q.after != lockmw.Forever && !lasts(&m.call) && r.loggerFor(m.ctx, slog.LevelWarn) != nil {
		q.add(s, m)
	}
}

func (q *queue) add(s *attempt, m moment) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s.now, s.queued = m, true
	q.attempts.Push(s)
	if !q.armed {
		q.armed = true
		time.AfterFunc(q.after, q.logLate)
	}
}

// update replaces the moment of an attempt.
func (q *queue) update(s *attempt, m moment) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s.now = m
}

// remove takes an attempt off the queue. From then on the queue does not read its moment.
func (q *queue) remove(s *attempt) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.queued {
		s.queued = false
		q.attempts.Remove(s)
	}
}

// logLate logs the attempts that have become late, and sets the timer for the next.
func (q *queue) logLate() {
	late, moments := q.takeLate()
	for i, s := range late {
		q.logOne(s, &moments[i])
	}
}

// logOne logs an attempt. A panic of the logger's handler must not end the process; in a call for a lock lockmw recovers it.
func (q *queue) logOne(s *attempt, m *moment) {
	defer func() {
		if v := recover(); v != nil {
			fmt.Fprintf(os.Stderr, "locklog: the handler of the logger panicked: %v\n", v)
		}
	}()
	q.log(s, m)
}

// takeLate takes the attempts that have become late off the queue.
func (q *queue) takeLate() (late []*attempt, moments []moment) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.armed = false
	for s := q.attempts.First(); s != nil; s = q.attempts.First() {
		if left := q.after - time.Since(s.now.since); left > 0 {
			q.armed = true
			time.AfterFunc(left, q.logLate)
			break
		}
		s.queued = false
		q.attempts.Remove(s)
		late, moments = append(late, s), append(moments, s.now)
	}
	return late, moments
}

// stillWaiting logs a wait that continues. Without a holder in the way the call waits for Redis: such calls are logged only now
// and then.
func (r *reporter) stillWaiting(s *attempt, m *moment) {
	if !s.is(observe.Waiting) {
		return
	}
	if m.seen.Position == 0 && len(m.seen.Holders) == 0 {
		if _, ok := r.silence.Allow(""); !ok {
			return
		}
	}
	r.logWaiting(m)
}

// stillHeld logs a hold that continues.
func (r *reporter) stillHeld(s *attempt, m *moment) {
	if s.is(observe.Holding) {
		r.logHold(m.ctx, slog.LevelWarn, msgStillHeld, &m.call, s, s.Held(), nil, nil)
	}
}
