package inspector

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockmw/go/lockmw"
)

// perPage is how many locks a page of the overview has.
const perPage = 100

// An entry is one lock of a snapshot, with what it is sorted and found by.
type entry struct {
	lockmw.Status
	err     error
	at      time.Time // when it was read
	shown   string    // its key, as viewers may see it
	state   string
	waiting int
	longest time.Time // since when somebody waits; zero: nobody knows
}

// A snapshot is all locks, as they were read. It does not change.
type snapshot struct {
	entries []*entry
	totals  totals

	processes func() map[string]*attendance // by name; found when somebody asks

	mu     sync.Mutex
	chosen map[query][]*entry // by query without its page: many viewers look at the same
}

// The totals are those of all locks, whatever the query.
type totals struct {
	Locks       int     `json:"locks"`
	Held        int     `json:"held"` // contended ones are held, too
	Contended   int     `json:"contended"`
	Lingering   int     `json:"lingering"`
	Unreadable  int     `json:"unreadable"`
	Waiting     int     `json:"waiting"`
	LongestWait *millis `json:"longest_wait_ms"`

	longest time.Time
}

// newEntry prepares what was read of a key.
func newEntry(s lockmw.Status, err error, at time.Time, shown string) *entry {
	return &entry{Status: s, err: err, at: at, shown: shown, state: stateOf(&s, err), waiting: s.Waiting(), longest: longestSince(&s)}
}

func newSnapshot(entries []*entry) *snapshot {
	s := &snapshot{entries: entries, chosen: make(map[query][]*entry)}
	s.processes = sync.OnceValue(s.findProcesses)
	t := &s.totals
	t.Locks = len(entries)
	for _, e := range entries {
		switch e.state {
		case stateContended:
			t.Contended++
			t.Held++
		case stateHeld:
			t.Held++
		case stateLingering:
			t.Lingering++
		case stateUnknown:
			t.Unreadable++
		}
		t.Waiting += e.waiting
		if !e.longest.IsZero() && (t.longest.IsZero() || e.longest.Before(t.longest)) {
			t.longest = e.longest
		}
	}
	return s
}

// total returns the totals as they are now.
func (s *snapshot) total() totals {
	t := s.totals
	if !t.longest.IsZero() {
		wait := millisOf(time.Since(t.longest))
		t.LongestWait = &wait
	}
	return t
}

// choose returns the locks that a query asks for, in its order, of all its pages. It searches when it is its turn: false if that
// does not come.
func (s *snapshot) choose(ctx context.Context, q query, turns *queue) ([]*entry, bool) {
	q.Page = 0
	if found, ok := s.known(q); ok {
		return found, true
	}
	if !turns.enter(ctx) {
		return nil, false
	}
	defer turns.leave()
	if found, ok := s.known(q); ok { // another has searched for the same
		return found, true
	}
	var found []*entry
	for _, e := range s.entries {
		if q.matches(e) {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, q.compare)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.chosen) >= 100 { // as many as somebody types
		clear(s.chosen)
	}
	s.chosen[q] = found
	return found, true
}

// known returns what was found for a query before.
func (s *snapshot) known(q query) ([]*entry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.chosen[q]
	return found, ok
}

// matches reports whether the query asks for a lock. Redacted keys are searched as they are shown.
func (q *query) matches(e *entry) bool {
	if q.Mode != "" && modeOf(&e.Status) != q.Mode {
		return false
	}
	if q.State != "" && e.state != q.State && (q.State != stateHeld || e.state != stateContended) {
		return false
	}
	if q.text == "" || strings.Contains(e.shown, q.text) {
		return true
	}
	for i := range e.Holders {
		if h := &e.Holders[i]; strings.Contains(h.Label, q.text) || strings.Contains(h.Process, q.text) {
			return true
		}
	}
	for i := range e.Waiters {
		if w := &e.Waiters[i]; strings.Contains(w.Label, q.text) || strings.Contains(w.Process, q.text) {
			return true
		}
	}
	return false
}

// orders are the columns by which the overview can be sorted. Each puts first what should be seen first.
var orders = map[string]func(a, b *entry) int{
	"key":     func(a, b *entry) int { return cmp.Compare(a.shown, b.shown) },
	"state":   func(a, b *entry) int { return cmp.Compare(a.state, b.state) },
	"mode":    func(a, b *entry) int { return cmp.Compare(modeOf(&a.Status), modeOf(&b.Status)) },
	"holder":  func(a, b *entry) int { return cmp.Compare(a.firstHolder(), b.firstHolder()) },
	"held":    func(a, b *entry) int { return compareTimes(a.first().Since, b.first().Since) },
	"lease":   func(a, b *entry) int { return cmp.Compare(a.leaseEnds(), b.leaseEnds()) },
	"waiting": func(a, b *entry) int { return cmp.Compare(b.waiting, a.waiting) },
	"wait":    func(a, b *entry) int { return compareTimes(a.longest, b.longest) },
}

// compare orders by the query's column, then by who waits longest, then by key.
func (q *query) compare(a, b *entry) int {
	order := orders[q.sort]
	if q.backwards {
		a, b = b, a
	}
	first := order(a, b)
	if q.backwards {
		a, b = b, a
	}
	return cmp.Or(first, cmp.Compare(b.waiting, a.waiting), compareTimes(a.longest, b.longest), cmp.Compare(a.shown, b.shown),
		compareTimes(a.first().Since, b.first().Since), cmp.Compare(a.first().Token, b.first().Token))
}

// compareTimes puts the earlier first, and those that are not known last.
func compareTimes(a, b time.Time) int {
	if a.IsZero() || b.IsZero() {
		return b.Compare(a)
	}
	return a.Compare(b)
}

var noHolder lockmw.Holder

// first is the first holder, or noHolder.
func (e *entry) first() *lockmw.Holder {
	if len(e.Holders) == 0 {
		return &noHolder
	}
	return &e.Holders[0]
}

// firstHolder is its process, behind all others if there is none.
func (e *entry) firstHolder() string {
	if len(e.Holders) == 0 {
		return "\xff"
	}
	return e.Holders[0].Process
}

// leaseEnds is when the first lease ends, in milliseconds; after all others if nobody holds the lock.
func (e *entry) leaseEnds() int64 {
	first := time.Duration(1<<63 - 1)
	for i := range e.Holders {
		first = min(first, e.Holders[i].TTL)
	}
	if len(e.Holders) == 0 {
		return int64(first)
	}
	return e.at.Add(first).UnixMilli()
}
