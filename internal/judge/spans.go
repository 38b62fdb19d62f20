// Package judge checks that locks keep their guarantees. It judges what several processes report about their calls and holds.
package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// Spans compare the holds of several processes:
//
//   - Two holds of a key never overlap unless both read. Permits of a semaphore overlap up to their number.
//   - Tokens increase from grant to grant of a key. The token of a read hold may equal the previous one.
//
// They are safe for concurrent use.
type Spans struct {
	mu     sync.Mutex
	keys   map[string][]*Span
	losses []int64 // when the server lost its data, by the clock that seeds tokens
	passed bool    // since a loss, processes may have passed on older locks
}

// NewSpans returns Spans without holds.
func NewSpans() *Spans { return &Spans{keys: make(map[string][]*Span)} }

// A Span is the time during which a hold excludes others, by the machine's clock. Spans of several processes are compared at
// the end of a scenario, because reports arrive in any order.
type Span struct {
	token    int64
	From     time.Duration // when Lock returned
	deadline time.Duration // of a hold of another process, as last reported
	Reads    bool          // it excludes only writers
	// Live returns the deadline of a hold of this process, or zero if it has none. It is nil for a hold of another process.
	Live func() time.Time

	shared  time.Duration // since when a downgraded hold reads; 0 if never
	over    bool
	to      time.Duration // if over: when Unlock was called or the process was killed
	checked bool

	weight, permits int           // of a semaphore with this number of permits; 0 for a lock
	asked           time.Duration // of a permit: when Lock was called
}

// Until returns the end of the time during which the hold excludes readers or writers.
func (s *Span) Until(reads bool) time.Duration {
	end := s.deadline
	if s.Live != nil {
		end = math.MaxInt64
		if d := s.Live(); !d.IsZero() {
			end = MachineTime(d)
		}
	}
	if s.over {
		end = min(end, s.to)
	}
	if reads && s.shared != 0 {
		end = min(end, s.shared)
	}
	return end
}

// Report records a report about a hold. s is the result for the hold's previous report; nil if there is none.
func (a *Spans) Report(s *Span, said Report) *Span {
	a.mu.Lock()
	defer a.mu.Unlock()
	if said.Event == Granted {
		s = &Span{token: said.Token, From: said.At, Reads: said.Reads, weight: said.Weight, permits: said.Permits, asked: said.Asked}
		a.keys[said.Key] = append(a.keys[said.Key], s)
	}
	if s != nil {
		s.deadline = max(s.deadline, said.Deadline)
		switch {
		case said.Event == Shared && s.shared == 0:
			s.shared = said.At
		case said.Event == Ended && !s.over:
			s.over, s.to = true, said.At
			if said.Deadline > 0 { // it comes earlier than it was once the clock was set forward, as after a suspend
				s.to = min(said.At, said.Deadline)
			}
		}
	}
	return s
}

// End records that a hold has ended by t, for example because its process was killed. s may be nil.
func (a *Spans) End(s *Span, t time.Time) { a.Report(s, Report{Event: Ended, At: MachineTime(t)}) }

// Lose records that the server lost data at a time by the clock that seeds tokens. Tokens tell on which side of a loss a hold is, and
// holds on different sides may overlap. passed says that processes pass locks on without the server, so that smaller tokens may
// follow greater ones after a loss.
func (a *Spans) Lose(passed bool, at int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.losses = append(a.losses, at)
	a.passed = a.passed || passed
}

// Era returns the number of losses before a token was granted.
func (a *Spans) Era(token int64) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.era(token)
}

func (a *Spans) era(token int64) int {
	n := 0
	for n < len(a.losses) && a.losses[n] <= token {
		n++
	}
	return n
}

// Follows reports whether a token may come after another one.
func Follows(token, before int64, reads bool) bool { return token > before || reads && token == before }

// check compares the last of these spans with the others.
func (a *Spans) check(key string, spans []*Span) (violations []Violation) {
	s, earlier := spans[len(spans)-1], spans[:len(spans)-1]
	if s.From >= s.Until(false) {
		return nil // its process learned of the grant after its end
	}
	if s.permits > 0 {
		return checkPermits(key, s, earlier)
	}
	for _, before := range earlier {
		if kind, text := a.compare(before, s); text != "" {
			violations = append(violations, Violation{Kind: kind, Key: key, At: s.From, Text: text})
		}
	}
	return violations
}

func (a *Spans) compare(before, s *Span) (Kind, string) {
	if before.Reads && s.Reads {
		return "", ""
	}
	same := a.era(s.token) == a.era(before.token)
	end := before.Until(s.Reads)
	switch {
	case !Follows(s.token, before.token, s.Reads) && (same || !a.passed):
		return Tokens, fmt.Sprintf("token %d after %d", s.token, before.token)
	case same && s.From < end:
		return Overlap, fmt.Sprintf("token %d was granted %v before the end of token %d", s.token, end-s.From, before.token)
	}
	return "", ""
}

// checkPermits compares a permit of a semaphore with earlier ones.
func checkPermits(key string, s *Span, earlier []*Span) (violations []Violation) {
	held := s.weight
	for _, before := range earlier {
		if s.From < before.Until(false) {
			held += before.weight
		}
		if s.token == before.token || s.token < before.token && before.From < s.asked {
			violations = append(violations, Violation{Kind: Tokens, Key: key, At: s.From, Text: fmt.Sprintf("token %d after %d", s.token, before.token)})
		}
	}
	if held > s.permits {
		text := fmt.Sprintf("with token %d, permits of weight %d are held, of %d", s.token, held, s.permits)
		violations = append(violations, Violation{Kind: Overlap, Key: key, At: s.From, Text: text})
	}
	return violations
}

// Settle checks the spans that began before the given time and were not checked yet. It then drops spans that no later one can
// violate, so that its memory use does not grow. All reports about spans before that time must have arrived; a late one is
// compared with fewer spans.
func (a *Spans) Settle(before time.Duration) (violations []Violation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, spans := range a.keys {
		slices.SortFunc(spans, func(a, b *Span) int { return cmp.Compare(a.From, b.From) })
		n, _ := slices.BinarySearchFunc(spans, before, func(s *Span, t time.Duration) int { return cmp.Compare(s.From, t) })
		var last, written *Span // with the greatest tokens
		for i, s := range spans[:n] {
			if !s.checked {
				violations = append(violations, a.check(key, spans[:i+1])...)
				s.checked = true
			}
			last = greater(last, s)
			if !s.Reads {
				written = greater(written, s)
			}
		}
		first := 0
		a.keys[key] = slices.DeleteFunc(spans, func(s *Span) bool {
			first++
			return first <= n && s != last && s != written && s.Until(false) <= before
		})
	}
	return violations
}

func greater(a, b *Span) *Span {
	if a == nil || b.token > a.token {
		return b
	}
	return a
}
