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

// perPage is the number of locks on a page of the overview.
const perPage = 100

// An entry is one lock of a snapshot, with the fields for sorting and searching.
type entry struct {
	lockmw.Status
	err     error
	at      time.Time // when it was read
	shown   string    // its key, as viewers may see it
	state   string
	waiting int
	longest time.Time // start of the longest wait; zero: unknown
}

// A snapshot has all locks of one reading. It is immutable.
type snapshot struct {
	entries []*entry
	totals  totals

	processes func() map[string]*attendance // by name; computed on first use

	mu     sync.Mutex
	chosen map[query][]*entry // cache by query without its page, because many viewers use the same query
}

// The totals count all locks, independent of the query.
type totals struct {
	Locks       int     `json:"locks"`
	Held        int     `json:"held"` // includes contended locks
	Contended   int     `json:"contended"`
	Lingering   int     `json:"lingering"`
	Unreadable  int     `json:"unreadable"`
	Waiting     int     `json:"waiting"`
	LongestWait *millis `json:"longest_wait_ms"`

	longest time.Time
}

// newEntry makes an entry from the status of a key.
func newEntry(s lockmw.Status, err error, at time.Time, shown string) *entry {
	return &entry{Status: s, err: err, at: at, shown: shown, state: stateOf(&s, err), waiting: s.Waiting(), longest: s.WaitingSince()}
}

func newSnapshot(entries []*entry) *snapshot {
	s := &snapshot{entries: entries, chosen: make(map[query][]*entry)}
	s.processes = sync.OnceValue(func() map[string]*attendance { return findProcesses(entries) })
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

// total returns the totals with the longest wait up to now.
func (s *snapshot) total() totals {
	t := s.totals
	t.LongestWait = waitSince(t.longest, time.Now())
	return t
}

// choose returns the locks that match a query, sorted, for all pages. A search waits for its turn; choose reports false if it does not
// get one.
func (s *snapshot) choose(ctx context.Context, q query, turns *queue) ([]*entry, bool) {
	q.Page = 0
	if found, ok := s.known(q); ok {
		return found, true
	}
	if !turns.enter(ctx) {
		return nil, false
	}
	defer turns.leave()
	if found, ok := s.known(q); ok { // another request has made the same search meanwhile
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
	if len(s.chosen) >= 100 { // bounds the cache: anyone can type queries
		clear(s.chosen)
	}
	s.chosen[q] = found
	return found, true
}

// known returns the cached result of a query.
func (s *snapshot) known(q query) ([]*entry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.chosen[q]
	return found, ok
}

// matches reports whether a lock matches the query. The search sees only the redacted text of keys.
func (q *query) matches(e *entry) bool {
	if q.Mode != "" && modeOf(&e.Status) != q.Mode {
		return false
	}
	if q.State != "" && e.state != q.State && (q.State != stateHeld || e.state != stateContended) {
		return false
	}
	if q.Text == "" || strings.Contains(e.shown, q.Text) {
		return true
	}
	return e.any(func(process, label string) bool {
		return strings.Contains(label, q.Text) || strings.Contains(process, q.Text)
	})
}

// orders has the columns by which the overview can be sorted. Each puts the most important locks first.
var orders = map[string]func(a, b *entry) int{
	"key":     func(a, b *entry) int { return cmp.Compare(a.shown, b.shown) },
	"state":   func(a, b *entry) int { return cmp.Compare(a.state, b.state) },
	"mode":    func(a, b *entry) int { return cmp.Compare(modeOf(&a.Status), modeOf(&b.Status)) },
	"holder":  func(a, b *entry) int { return cmp.Compare(a.first().Process, b.first().Process) },
	"held":    func(a, b *entry) int { return compareTimes(a.first().Since, b.first().Since) },
	"lease":   func(a, b *entry) int { return cmp.Compare(a.leaseEnds(), b.leaseEnds()) },
	"waiting": func(a, b *entry) int { return cmp.Compare(b.waiting, a.waiting) },
	"wait":    func(a, b *entry) int { return compareTimes(a.longest, b.longest) },
}

// compare orders by the query's column, then by waiting calls, longest wait and key.
func (q *query) compare(a, b *entry) int {
	first := orders[q.sort](a, b)
	if q.backwards {
		first = -first
	}
	return cmp.Or(first, cmp.Compare(b.waiting, a.waiting), compareTimes(a.longest, b.longest), cmp.Compare(a.shown, b.shown),
		compareTimes(a.first().Since, b.first().Since), cmp.Compare(a.first().Token, b.first().Token))
}

// compareTimes puts earlier times first and unknown ones last.
func compareTimes(a, b time.Time) int {
	if a.IsZero() || b.IsZero() {
		return b.Compare(a)
	}
	return a.Compare(b)
}

// noHolder sorts after all holders.
var noHolder = lockmw.Holder{Process: "\xff"}

// first returns the first holder, or noHolder.
func (e *entry) first() *lockmw.Holder {
	if len(e.Holders) == 0 {
		return &noHolder
	}
	return &e.Holders[0]
}

// leaseEnds returns the end of the first lease as a Unix time in milliseconds. Without a holder it sorts last.
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
