// Package history records the calls of locks in one process, and checks that they are linearizable.
package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockmw/go/internal/test/recording"
	"github.com/lockmw/go/lockmw"
)

// A History is what callers observe of some locks: the start, the return and the result of each call. It is safe for
// concurrent use.
type History struct {
	// OverNodes marks locks over several nodes. There, TryLock may return ErrBusy for a free lock, because of concurrent calls or
	// a node that has not yet processed a release. So a busy TryLock proves nothing.
	OverNodes bool

	start time.Time

	mu         sync.Mutex
	last       moment
	steps      []Step
	rested     int // number of steps before the last rest
	calls      int
	violations []string
}

// NewHistory returns an empty history that begins now.
func NewHistory() *History { return &History{start: time.Now()} }

// A moment is a point of a history. Moments at the same instant differ by their number.
type moment struct {
	at time.Duration // since the start
	N  int
}

func (m moment) compare(other moment) int {
	return cmp.Or(cmp.Compare(m.at, other.at), cmp.Compare(m.N, other.N))
}

// A Step is an event of a lock at some moment between From and to.
type Step struct {
	key   string
	Kind  stepKind
	hold  int  // the number of its acquisition
	reads bool // a read hold, which excludes only writers

	weight, permits int // of a semaphore with this number of permits; 0 for a lock

	token int64 // of a grant; of a busy lock, the holder's token in the error
	waits bool  // of a grant: the call may have waited
	Open  bool  // of an end: at some moment before the next rest
	Lost  bool  // … because the lease expired
	From  moment
	to    moment
}

type stepKind string

// The kinds of a Step.
const (
	stepWaits stepKind = "waits"
	stepGrant stepKind = "is granted"
	stepBusy  stepKind = "finds it busy"
	StepDoubt stepKind = "may be granted"
	stepEnd   stepKind = "ends"
	stepRest  stepKind = "rest"
)

// now returns a new moment; h.mu is held.
func (h *History) now() moment {
	h.last = moment{time.Since(h.start), h.last.N + 1}
	return h.last
}

// begin counts a call and returns its first moment.
func (h *History) begin() moment {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	return h.now()
}

// A Turn is a hold in a history.
type Turn struct {
	h    *History
	hold *lockmw.Hold
	of   Step // common to all its steps
}

// leaseOf returns the lease of a call; 0 if its options are invalid.
func leaseOf(opts []lockmw.Option) time.Duration {
	p, err := lockmw.NewPolicy(opts...)
	if err != nil {
		return 0
	}
	return p.Lease
}

// Lock calls l.Lock. With a wait of 0 it is a TryLock. opts include the lease.
func (h *History) Lock(ctx context.Context, l lockmw.Locker, key string, wait time.Duration, opts ...lockmw.Option) (context.Context, *Turn, error) {
	from := h.begin()
	ctx, hold, err := l.Lock(ctx, key, append(opts, lockmw.WithWait(wait))...)
	h.mu.Lock()
	defer h.mu.Unlock()
	of := Step{key: key, hold: from.N, reads: recording.Reads(l)}
	of.weight, of.permits = weighs(l)
	s := of
	s.waits, s.From, s.to = wait > 0, from, h.now()
	if s.to.at-from.at >= leaseOf(opts) {
		// An earlier grant may have been answered so late that its lease had expired.
		h.steps = append(h.steps, Step{key: key, Kind: StepDoubt, hold: from.N, From: from, to: from})
	}
	switch {
	case err == nil:
		s.Kind, s.token = stepGrant, hold.Token()
		if s.waits {
			waits := of
			waits.Kind, waits.From, waits.to = stepWaits, from, from
			h.steps = append(h.steps, waits)
		}
	case wait == 0 && errors.Is(err, lockmw.ErrBusy) && ctx.Err() == nil:
		if h.OverNodes {
			return ctx, nil, err
		}
		s.Kind = stepBusy
		if e, ok := errors.AsType[*lockmw.Error](err); ok && len(e.Holders) > 0 {
			s.token = e.Holders[0].Token
		}
	default:
		// The ticket may have been granted and withdrawn at an unknown time.
		s.Kind, s.to = StepDoubt, from
	}
	h.steps = append(h.steps, s)
	if err != nil {
		return ctx, nil, err
	}
	return ctx, &Turn{h: h, hold: hold, of: of}, nil
}

// Unlock ends the turn.
func (t *Turn) Unlock() error {
	h := t.h
	from := h.begin()
	err := t.hold.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	s := t.of
	s.Kind, s.From, s.to = stepEnd, from, h.now()
	switch deadline := t.hold.Deadline().Sub(h.start); {
	case err == nil:
	case errors.Is(err, lockmw.ErrLost):
		s.lose(deadline)
		if deadline > s.to.at {
			h.violations = append(h.violations, fmt.Sprintf("%q: lost %v before its deadline: %v", t.of.key, deadline-s.to.at, err))
		}
	default: // unknown outcome: it may still be under way, or the lease must expire first
		s.Open = true
	}
	h.steps = append(h.steps, s)
	return err
}

// lose makes s the end of a lost hold. The server grants the lock again some time after the deadline. It may do so earlier if a
// release that began before the deadline arrived and only its answer was late.
func (s *Step) lose(deadline time.Duration) {
	s.Open, s.Lost = true, true
	if deadline <= s.From.at {
		s.From = moment{at: deadline} // before anything observed later
	}
}

// Rest records that no call is under way and that the server knows of none, so all unknown outcomes are settled. Any later
// effect is a violation.
func (h *History) Rest(keys []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	for i := range h.steps[h.rested:] {
		if s := &h.steps[h.rested+i]; s.Open {
			s.to = now
		}
	}
	now = h.now()
	for _, key := range keys {
		h.steps = append(h.steps, Step{key: key, Kind: stepRest, From: now, to: now})
	}
	h.rested = len(h.steps)
}

// Operations returns the number of calls and expired leases.
func (h *History) Operations() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.calls
	for i := range h.steps {
		if s := &h.steps[i]; s.Lost {
			n++
		}
	}
	return n
}

// Count returns how many steps satisfy is.
func (h *History) Count(is func(*Step) bool) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.steps {
		if is(&h.steps[i]) {
			n++
		}
	}
	return n
}

// ordered returns the steps, with their moments numbered consecutively.
func (h *History) ordered() (steps []Step, from, to []int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	moments := make([]moment, 0, 2*len(h.steps))
	for i := range h.steps {
		moments = append(moments, h.steps[i].From, h.steps[i].to)
	}
	slices.SortFunc(moments, moment.compare)
	moments = slices.Compact(moments)
	number := make(map[moment]int64, len(moments))
	for i, m := range moments {
		number[m] = int64(i)
	}
	for i := range h.steps {
		from = append(from, number[h.steps[i].From])
		to = append(to, number[h.steps[i].to])
	}
	return h.steps, from, to
}

// Strict returns how many TryLocks were busy when only a holder could be the reason: before any call waited or had an unknown
// outcome.
func (h *History) Strict() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	excused := make(map[string]moment) // the start of the first such call since the last rest
	var tries []Step
	for _, s := range h.steps { // in order of their ends, except waits and doubts
		switch s.Kind {
		case stepWaits, StepDoubt:
			if since, ok := excused[s.key]; !ok || s.From.compare(since) < 0 {
				excused[s.key] = s.From
			}
		case stepBusy:
			tries = append(tries, s)
		case stepRest:
			tries = slices.DeleteFunc(tries, func(try Step) bool {
				if try.key != s.key {
					return false
				}
				if since, ok := excused[s.key]; !ok || try.to.compare(since) < 0 {
					n++
				}
				return true
			})
			delete(excused, s.key)
		}
	}
	return n
}
