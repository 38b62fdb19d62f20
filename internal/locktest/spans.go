package locktest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// A span is the time during which a hold excludes others, by the clock of the machine: holds of
// several processes are compared when a scenario is over, as their reports arrive in any order.
type span struct {
	token    int64
	from     time.Duration // when Lock had returned
	deadline time.Duration // of a hold of another process, as last reported
	held     *Held         // a hold of this process
	over     bool
	to       time.Duration // if over: when Unlock was called, or the process killed
}

// end says that the hold ends now at the latest. A nil span is nobody's.
func (s *span) end(t time.Time) {
	if s != nil && !s.over {
		s.over, s.to = true, machineTime(t)
	}
}

// until is the end of the exclusion that was promised.
func (s *span) until() time.Duration {
	end := s.deadline
	if s.held != nil {
		end = math.MaxInt64
		if d := s.held.Deadline(); !d.IsZero() {
			end = machineTime(d)
		}
	}
	if s.over {
		end = min(end, s.to)
	}
	return end
}

// KeepSpans says that other processes take part, whose holds are reported with report and killed.
func (r *Recorder) KeepSpans() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spanned = true
}

// report records what a child says of a hold; s is what report has returned for the hold before.
func (r *Recorder) report(s *span, said report) *span {
	r.mu.Lock()
	defer r.mu.Unlock()
	if said.Event == granted {
		s = &span{token: said.Token, from: said.At}
		k := r.record(said.Key)
		k.spans = append(k.spans, s)
		k.last, k.grants = max(k.last, said.Token), k.grants+1
	}
	if s != nil {
		s.deadline = max(s.deadline, said.Deadline)
		if said.Event == ended && !s.over {
			s.over, s.to = true, said.At
		}
	}
	return s
}

// killed records that the process of a hold was killed at t.
func (r *Recorder) killed(s *span, t time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.end(t)
}

// overlaps checks the spans of all keys.
func (r *Recorder) overlaps() (violations []string) {
	for key, k := range r.keys {
		slices.SortFunc(k.spans, func(a, b *span) int { return cmp.Compare(a.from, b.from) })
		for i, s := range k.spans {
			if s.from >= s.until() {
				continue // it learned of its grant when that was over
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

func (r *Recorder) compare(before, s *span) string {
	same := r.eraOf(s.token) == r.eraOf(before.token)
	switch {
	case s.token <= before.token && (same || !r.passed):
		return fmt.Sprintf("token %d after %d", s.token, before.token)
	case same && s.from < before.until():
		return fmt.Sprintf("token %d was granted %v before the end of token %d", s.token, before.until()-s.from, before.token)
	}
	return ""
}
