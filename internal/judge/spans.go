package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// A Span is the time during which a hold excludes others, by the machine's clock. Spans of several processes are compared at
// the end of a scenario, because reports arrive in any order.
type Span struct {
	token    int64
	From     time.Duration // when Lock returned
	deadline time.Duration // of a hold of another process, as last reported
	held     *Held         // a hold of this process
	Reads    bool          // it excludes only writers
	shared   time.Duration // since when a downgraded hold reads; 0 if never
	over     bool
	to       time.Duration // if over: when Unlock was called or the process was killed
	checked  bool

	weight, permits int           // of a semaphore with this number of permits; 0 for a lock
	asked           time.Duration // of a permit: when Lock was called
}

// end records that the hold ends by t. It does nothing on a nil span.
func (s *Span) end(t time.Time) {
	if s != nil && !s.over {
		s.over, s.to = true, MachineTime(t)
	}
}

// share records that the hold reads from now on. It does nothing on a nil span.
func (s *Span) share(now time.Duration) {
	if s != nil && s.shared == 0 {
		s.shared = now
	}
}

// Until returns the end of the time during which the hold excludes readers or writers.
func (s *Span) Until(reads bool) time.Duration {
	end := s.deadline
	if s.held != nil {
		end = math.MaxInt64
		if d := s.held.Deadline(); !d.IsZero() {
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

// KeepSpans makes the Recorder compare holds across processes. Other processes use Report and Killed.
func (r *Recorder) KeepSpans() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spanned = true
}

// Report records a child's report about a hold. s is the result for the hold's previous report.
func (r *Recorder) Report(s *Span, said Report) *Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	if said.Event == Granted {
		s = &Span{token: said.Token, From: said.At, Reads: said.Reads, weight: said.Weight, permits: said.Permits, asked: said.Asked}
		k := r.record(said.Key)
		k.spans = append(k.spans, s)
		k.tokens.add(said.Token, said.Reads)
		k.grants++
	}
	if s != nil {
		s.deadline = max(s.deadline, said.Deadline)
		switch {
		case said.Event == Shared:
			s.share(said.At)
		case said.Event == Ended && !s.over:
			s.over, s.to = true, said.At
		}
	}
	return s
}

// Killed records that the process of a hold was killed at t.
func (r *Recorder) Killed(s *Span, t time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.end(t)
}

// overlaps checks the spans of all keys.
func (r *Recorder) overlaps() (violations []Violation) {
	for key, k := range r.keys {
		k.sortSpans()
		for i := range k.spans {
			violations = append(violations, r.check(key, k.spans[:i+1])...)
		}
	}
	return violations
}

func (k *record) sortSpans() {
	slices.SortFunc(k.spans, func(a, b *Span) int { return cmp.Compare(a.From, b.From) })
}

// check compares the last of these spans with the others.
func (r *Recorder) check(key string, spans []*Span) (violations []Violation) {
	s, earlier := spans[len(spans)-1], spans[:len(spans)-1]
	if s.From >= s.Until(false) {
		return nil // its process learned of the grant after its end
	}
	if s.permits > 0 {
		return checkPermits(key, s, earlier)
	}
	for _, before := range earlier {
		if kind, text := r.compare(before, s); text != "" {
			violations = append(violations, Violation{Kind: kind, Key: key, At: s.From, Text: text})
		}
	}
	return violations
}

func (r *Recorder) compare(before, s *Span) (Kind, string) {
	if before.Reads && s.Reads {
		return "", ""
	}
	same := r.eraOf(s.token) == r.eraOf(before.token)
	end := before.Until(s.Reads)
	switch {
	case !follows(s.token, before.token, s.Reads) && (same || !r.passed):
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
func (r *Recorder) Settle(before time.Duration) (violations []Violation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, k := range r.keys {
		k.sortSpans()
		n, _ := slices.BinarySearchFunc(k.spans, before, func(s *Span, t time.Duration) int { return cmp.Compare(s.From, t) })
		var last, written *Span // with the greatest tokens
		for i, s := range k.spans[:n] {
			if !s.checked {
				violations = append(violations, r.check(key, k.spans[:i+1])...)
				s.checked = true
			}
			last = greater(last, s)
			if !s.Reads {
				written = greater(written, s)
			}
		}
		first := 0
		k.spans = slices.DeleteFunc(k.spans, func(s *Span) bool {
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
