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
		s = &Span{token: said.Token, From: said.At, Reads: said.Reads}
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
func (r *Recorder) overlaps() (violations []string) {
	for key, k := range r.keys {
		slices.SortFunc(k.spans, func(a, b *Span) int { return cmp.Compare(a.From, b.From) })
		for i, s := range k.spans {
			if s.From >= s.Until(false) {
				continue // its process learned of the grant after its end
			}
			for _, before := range k.spans[:i] {
				if v := r.compare(before, s); v != "" {
					violations = append(violations, fmt.Sprintf("%q: %s", key, v))
				}
			}
		}
	}
	return violations
}

func (r *Recorder) compare(before, s *Span) string {
	if before.Reads && s.Reads {
		return ""
	}
	same := r.eraOf(s.token) == r.eraOf(before.token)
	end := before.Until(s.Reads)
	switch {
	case !follows(s.token, before.token, s.Reads) && (same || !r.passed):
		return fmt.Sprintf("token %d after %d", s.token, before.token)
	case same && s.From < end:
		return fmt.Sprintf("token %d was granted %v before the end of token %d", s.token, end-s.From, before.token)
	}
	return ""
}
