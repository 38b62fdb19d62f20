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
	reads    bool          // it excludes only those that do not
	shared   time.Duration // if that is so later only: since when; 0 if not
	over     bool
	to       time.Duration // if over: when Unlock was called, or the process killed
}

// end says that the hold ends now at the latest. A nil span is nobody's.
func (s *span) end(t time.Time) {
	if s != nil && !s.over {
		s.over, s.to = true, machineTime(t)
	}
}

// share says that the hold reads from now on. A nil span is nobody's.
func (s *span) share(now time.Duration) {
	if s != nil && s.shared == 0 {
		s.shared = now
	}
}

// until is the end of the exclusion that was promised, of others that read or not.
func (s *span) until(reads bool) time.Duration {
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
	if reads && s.shared != 0 {
		end = min(end, s.shared)
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
		s = &span{token: said.Token, from: said.At, reads: said.Reads}
		k := r.record(said.Key)
		k.spans = append(k.spans, s)
		k.tokens.add(said.Token, said.Reads)
		k.grants++
	}
	if s != nil {
		s.deadline = max(s.deadline, said.Deadline)
		switch {
		case said.Event == shared:
			s.share(said.At)
		case said.Event == ended && !s.over:
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
			if s.from >= s.until(false) {
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
	if before.reads && s.reads {
		return ""
	}
	same := r.eraOf(s.token) == r.eraOf(before.token)
	end := before.until(s.reads)
	switch {
	case !follows(s.token, before.token, s.reads) && (same || !r.passed):
		return fmt.Sprintf("token %d after %d", s.token, before.token)
	case same && s.from < end:
		return fmt.Sprintf("token %d was granted %v before the end of token %d", s.token, end-s.from, before.token)
	}
	return ""
}
