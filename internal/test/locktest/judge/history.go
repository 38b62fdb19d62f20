package judge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockmw/go/lockmw"
)

// A History is what callers saw of some locks: when each call began and returned, with what outcome.
// Safe for concurrent use.
type History struct {
	// OverNodes says that the locks are had at most of several nodes. A try may find them busy then though nobody has them:
	// others may have tried at the same time, and what a node has not heard of yet may be in the way. So it proves nothing.
	OverNodes bool

	start time.Time

	mu         sync.Mutex
	last       moment
	steps      []Step
	rested     int // how many of the steps are before the last rest
	calls      int
	violations []string
}

// NewHistory makes an empty one, that begins now.
func NewHistory() *History { return &History{start: time.Now()} }

// A moment is a point of a history. Moments of the same instant are told apart by their number.
type moment struct {
	at time.Duration // since the start
	N  int
}

func (m moment) compare(other moment) int {
	return cmp.Or(cmp.Compare(m.at, other.at), cmp.Compare(m.N, other.N))
}

// A Step is something that happened to a lock at one moment from `from` to `to`.
type Step struct {
	key   string
	Kind  stepKind
	hold  int  // whose: the number of its acquisition
	reads bool // what it reads excludes only those that do not

	weight, permits int // of a semaphore with so many permits; 0: it is a lock

	token int64 // of a grant; of a busy lock, that of the holder as the error tells it
	waits bool  // of a grant: after the call had begun to wait
	Open  bool  // of an end: at some moment until the next rest
	Lost  bool  // … because the lease ran out
	From  moment
	to    moment
}

type stepKind string

// What a Step can be.
const (
	stepWaits stepKind = "waits"
	stepGrant stepKind = "is granted"
	stepBusy  stepKind = "finds it busy"
	StepDoubt stepKind = "may be granted"
	stepEnd   stepKind = "ends"
	stepRest  stepKind = "rest"
)

// now is the moment of something that the caller sees; h.mu is held.
func (h *History) now() moment {
	h.last = moment{time.Since(h.start), h.last.N + 1}
	return h.last
}

// begin is the moment at which a call begins.
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
	of   Step // what all its steps have in common
}

// ShortestLease is the shortest that calls of a history may ask for.
const ShortestLease = 100 * time.Millisecond

// Lock calls l.Lock. A wait of 0 tries once.
func (h *History) Lock(ctx context.Context, l lockmw.Locker, key string, wait time.Duration, opts ...lockmw.Option) (context.Context, *Turn, error) {
	from := h.begin()
	ctx, hold, err := l.Lock(ctx, key, append(opts, lockmw.WithWait(wait))...)
	h.mu.Lock()
	defer h.mu.Unlock()
	of := Step{key: key, hold: from.N, reads: Reads(l)}
	of.weight, of.permits = weighs(l)
	s := of
	s.waits, s.From, s.to = wait > 0, from, h.now()
	if s.to.at-from.at >= ShortestLease {
		// It may have been granted the lock before, with an answer so late that the lease had run out.
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
		// Nobody can say when, or whether, its ticket was granted and withdrawn again.
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
	default: // of unknown outcome: it may still be on its way, or the lease may have to run out
		s.Open = true
	}
	h.steps = append(h.steps, s)
	return err
}

// lose makes s the end of a hold that was lost. The server gives the lock to others at some time after the deadline; or sooner, if a
// release that began before it has reached the server and only its answer has not come in time.
func (s *Step) lose(deadline time.Duration) {
	s.Open, s.Lost = true, true
	if deadline <= s.From.at {
		s.From = moment{at: deadline} // before all else that is seen then
	}
}

// Rest says that no call is under way and that the server has been seen to know of none: whatever was
// in doubt is over. What takes place later all the same is a violation.
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

// Operations is how many calls were made, and leases ran out.
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

// Count is how many steps are as asked for.
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

// ordered returns the steps with the moments numbered through, so that each is one number.
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

// Strict is how many tries failed while nothing but a holder could be the reason: before anybody
// waited and before any call was in doubt.
func (h *History) Strict() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	excused := make(map[string]moment) // when the first of those calls began, since the last rest
	var tries []Step
	for _, s := range h.steps { // in the order of their ends, apart from those that excuse
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
