package protocol

import (
	"slices"
	"strings"
)

// A wrong is a fault on the way from one state to the next.
type wrong uint16

const (
	disorder  wrong = 1 << iota // a hold has started with an old token
	unfair                      // waiting readers were not admitted after a writer, or the reverse
	idling                      // a script left a ticket waiting without a reason
	shortened                   // a script made a hold end sooner
	usedTwice                   // a kept place was used again after its ticket was released
	sentBack                    // a call with a place in the queue asked without it
	overtaken                   // the lock was passed to a call that was not next
	givenUp                     // a ticket of a punctual live process was taken for dead
)

var wrongs = []string{
	"a hold has started with an old token",
	"the other side was not admitted",
	"a ticket waits without a reason",
	"a hold was shortened",
	"a place was used again",
	"a call has left its place",
	"a call was overtaken",
	"a live ticket was taken for dead",
}

func (w wrong) String() string {
	var parts []string
	for i, text := range wrongs {
		if w&(1<<i) != 0 {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, ", ")
}

// noteStart records that a process has begun to rely on its hold.
func (s *state) noteStart(p *process) {
	if p.forgotten {
		return // its writes are refused once a later hold has written
	}
	if p.token < s.written || p.token <= s.started && !p.reads {
		s.wrongs |= disorder
	}
	s.started = max(s.started, p.token)
	if !p.reads {
		s.written = max(s.written, p.token)
	}
}

// noteGrant records a grant to t alone.
func (s *state) noteGrant(t ticket) {
	s.stood, s.passed = 0, 0
	if t.keeps {
		s.stood = t.place
	}
	if s.hasLive(true) {
		s.outrun++
		for _, o := range s.queue {
			if o.id != nobody && o.reads && !o.unseen && o.place <= s.admit {
				s.wrongs |= unfair
			}
		}
	}
}

// notePhase records that admitted readers began a phase, or joined one.
func (s *state) notePhase(began bool) {
	s.outrun = 0
	if !s.hasLive(false) {
		return
	}
	if !began {
		s.wrongs |= unfair
	}
	s.passed++
}

// noteDead records that a ticket is taken for dead.
func (y *system) noteDead(s *state, id ident) {
	if p := s.user(id); p != nil && p.phase == queued && y.faults.delays == 0 {
		s.wrongs |= givenUp
	}
}

// noteServed records that the holder's ticket was granted and released.
func (s *state) noteServed() {
	if s.stood != 0 {
		s.served |= 1 << s.stood
	}
}

// judge compares the states before and after grantNext.
func (s *state) judge(before *state, after end) {
	isIn := func(t ticket) bool {
		return !t.reads || t.unseen || s.reads(t.id) || s.index(t.id) >= 0 && t.place <= s.admit
	}
	switch {
	case after == writing && !slices.ContainsFunc(before.queue[:], func(t ticket) bool { return t.id != nobody && !isIn(t) }):
	case after == reading && (s.holder != nobody || !before.hasLive(false) || before.admit != 0):
	case after == unknown:
	default:
		s.wrongs |= unfair
	}
	switch {
	case s.admit != 0 || before.admit != 0: // another execution is to come, or a poll
	case s.isFree() && (s.hasLive(true) || s.hasLive(false)), s.isRead() && s.hasLive(true) && !s.hasLive(false):
		s.wrongs |= idling
	}
}
