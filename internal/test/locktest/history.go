package locktest

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

// A history is what callers saw of some locks: when each call began and returned, with what outcome.
// Safe for concurrent use.
type history struct {
	start time.Time

	mu         sync.Mutex
	last       moment
	steps      []step
	rested     int // how many of the steps are before the last rest
	calls      int
	violations []string
}

func newHistory() *history { return &history{start: time.Now()} }

// A moment is a point of a history. Moments of the same instant are told apart by their number.
type moment struct {
	at time.Duration // since the start
	n  int
}

func (m moment) compare(other moment) int {
	return cmp.Or(cmp.Compare(m.at, other.at), cmp.Compare(m.n, other.n))
}

// A step is something that happened to a lock at one moment from `from` to `to`.
type step struct {
	key   string
	kind  stepKind
	hold  int   // whose: the number of its acquisition
	reads bool  // what it reads excludes only those that do not
	token int64 // of a grant; of a busy lock, that of the holder as the error tells it
	waits bool  // of a grant: after the call had begun to wait
	open  bool  // of an end: at some moment until the next rest
	from  moment
	to    moment
}

type stepKind string

const (
	stepWaits stepKind = "waits"
	stepGrant stepKind = "is granted"
	stepBusy  stepKind = "finds it busy"
	stepDoubt stepKind = "may be granted"
	stepEnd   stepKind = "ends"
	stepRest  stepKind = "rest"
)

// now is the moment of something that the caller sees; h.mu is held.
func (h *history) now() moment {
	h.last = moment{time.Since(h.start), h.last.n + 1}
	return h.last
}

// begin is the moment at which a call begins.
func (h *history) begin() moment {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	return h.now()
}

// A turn is a hold in a history.
type turn struct {
	h     *history
	hold  *lockmw.Hold
	key   string
	n     int
	reads bool
}

// shortestLease is the shortest that calls of a history may ask for.
const shortestLease = 100 * time.Millisecond

// lock calls l.Lock. A wait of 0 tries once.
func (h *history) lock(ctx context.Context, l lockmw.Locker, key string, wait time.Duration, opts ...lockmw.Option) (context.Context, *turn, error) {
	from := h.begin()
	ctx, hold, err := l.Lock(ctx, key, append(opts, lockmw.WithWait(wait))...)
	h.mu.Lock()
	defer h.mu.Unlock()
	s := step{key: key, hold: from.n, reads: reads(l), waits: wait > 0, from: from, to: h.now()}
	if s.to.at-from.at >= shortestLease {
		// It may have been granted the lock before, with an answer so late that the lease had run out.
		h.steps = append(h.steps, step{key: key, kind: stepDoubt, hold: from.n, from: from, to: from})
	}
	switch {
	case err == nil:
		s.kind, s.token = stepGrant, hold.Token()
		if s.waits {
			h.steps = append(h.steps, step{key: key, kind: stepWaits, hold: from.n, reads: s.reads, from: from, to: from})
		}
	case wait == 0 && errors.Is(err, lockmw.ErrBusy) && ctx.Err() == nil:
		s.kind = stepBusy
		if e, ok := errors.AsType[*lockmw.Error](err); ok && len(e.Holders) > 0 {
			s.token = e.Holders[0].Token
		}
	default:
		// Nobody can say when, or whether, its ticket was granted and withdrawn again.
		s.kind, s.to = stepDoubt, from
	}
	h.steps = append(h.steps, s)
	if err != nil {
		return ctx, nil, err
	}
	return ctx, &turn{h: h, hold: hold, key: key, n: from.n, reads: s.reads}, nil
}

// unlock ends the turn.
func (t *turn) unlock() error {
	h := t.h
	from := h.begin()
	err := t.hold.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	s := step{key: t.key, kind: stepEnd, hold: t.n, reads: t.reads, from: from, to: h.now()}
	switch deadline := t.hold.Deadline(); {
	case err == nil:
	case errors.Is(err, lockmw.ErrLost):
		// The server gives the lock to others at some time after the deadline, not before.
		s.open, s.from = true, moment{at: deadline.Sub(h.start)}
		if s.from.compare(s.to) > 0 {
			h.violations = append(h.violations, fmt.Sprintf("%q: lost %v before its deadline: %v", t.key, s.from.at-s.to.at, err))
		}
	default: // of unknown outcome: it may still be on its way, or the lease may have to run out
		s.open = true
	}
	h.steps = append(h.steps, s)
	return err
}

// rest says that no call is under way and that the server has been seen to know of none: whatever was
// in doubt is over. What takes place later all the same is a violation.
func (h *history) rest(keys []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	for i := range h.steps[h.rested:] {
		if s := &h.steps[h.rested+i]; s.open {
			s.to = now
		}
	}
	now = h.now()
	for _, key := range keys {
		h.steps = append(h.steps, step{key: key, kind: stepRest, from: now, to: now})
	}
	h.rested = len(h.steps)
}

// operations is how many calls were made, and leases ran out.
func (h *history) operations() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.calls
	for i := range h.steps {
		if s := &h.steps[i]; s.kind == stepEnd && s.from.n == 0 {
			n++
		}
	}
	return n
}

// count is how many steps are as asked for.
func (h *history) count(is func(*step) bool) (n int) {
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
func (h *history) ordered() (steps []step, from, to []int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	moments := make([]moment, 0, 2*len(h.steps))
	for i := range h.steps {
		moments = append(moments, h.steps[i].from, h.steps[i].to)
	}
	slices.SortFunc(moments, moment.compare)
	moments = slices.Compact(moments)
	number := make(map[moment]int64, len(moments))
	for i, m := range moments {
		number[m] = int64(i)
	}
	for i := range h.steps {
		from = append(from, number[h.steps[i].from])
		to = append(to, number[h.steps[i].to])
	}
	return h.steps, from, to
}

// strict is how many tries failed while nothing but a holder could be the reason: before anybody
// waited and before any call was in doubt.
func (h *history) strict() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	excused := make(map[string]moment) // when the first of those calls began, since the last rest
	var tries []step
	for _, s := range h.steps { // in the order of their ends, apart from those that excuse
		switch s.kind {
		case stepWaits, stepDoubt:
			if since, ok := excused[s.key]; !ok || s.from.compare(since) < 0 {
				excused[s.key] = s.from
			}
		case stepBusy:
			tries = append(tries, s)
		case stepRest:
			tries = slices.DeleteFunc(tries, func(try step) bool {
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
