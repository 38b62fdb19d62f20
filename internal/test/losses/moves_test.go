package losses

import (
	"fmt"

	"github.com/lockmw/go/internal/test/states"
)

// moves returns everything that can happen next.
func (y *system) moves(s *state) []states.Move[state] {
	steps := states.From(s)
	add := steps.By(states.Nobody)
	if s.made < y.ids {
		add(fmt.Sprintf("call %d asks for the lock", s.made), func(s *state) {
			s.calls[s.made].phase = asks
			s.made++
		})
	}
	for id := range s.made {
		y.callMoves(s, id, func(name string, change func(*state)) { add(fmt.Sprintf("call %d %s", id, name), change) })
	}
	if s.faults.saves > 0 {
		add("the server saves its state", func(s *state) { s.faults.saves--; s.saved = s.server })
	}
	if s.faults.losses > 0 {
		add("the server returns to its saved state", func(s *state) {
			s.faults.losses--
			s.server, s.due, s.shown = s.saved, !y.blind, false
		})
	}
	y.recoveryMoves(s, add)
	return steps.All
}

// callMoves adds everything that a call can do, and what can happen to its messages.
func (y *system) callMoves(s *state, id int8, add func(string, func(*state))) {
	switch s.calls[id].phase {
	case asks:
		add("has its acquire executed", func(s *state) {
			c := &s.calls[id]
			if s.server.has(id) || s.server.count() < y.capacity {
				s.server.add(id)
				c.phase = granted
				return
			}
			c.phase, c.named = refused, s.server
		})
	case granted:
		add("is granted the lock", func(s *state) { s.calls[id].phase = holds })
	case refused:
		add("learns that the lock is busy", func(s *state) { y.refuse(s, id) })
	case holds:
		add("releases", func(s *state) { s.calls[id] = call{phase: releases} })
	case releases:
		add("has its release executed", func(s *state) { s.server.remove(id); s.calls[id].phase = released })
	case cancels:
		add("has its cancel executed", func(s *state) { s.server.remove(id); s.calls[id].phase = canceled })
	case released:
		add("learns that its release is confirmed", func(s *state) { y.end(s, id, releasesRepeat) })
	case canceled:
		add("learns that its cancel is confirmed", func(s *state) { y.end(s, id, cancelsRepeat) })
	}
	if p := s.calls[id].phase; s.faults.gives > 0 && (p == asks || p == granted) {
		add("gives up", func(s *state) {
			s.faults.gives--
			if p == asks && s.server.count() < y.capacity { // acquire overtakes the cancel
				s.server.add(id)
			}
			s.calls[id] = call{phase: cancels}
		})
	}
}

// refuse ends a call that does not wait. If a named holder is an ended hold of this process, and nothing else is in flight,
// that hold is ended again.
func (y *system) refuse(s *state, id int8) {
	named := s.calls[id].named
	s.calls[id] = call{phase: over}
	alone := true
	for i := range s.made {
		if p := s.calls[i].phase; p != over && p != holds {
			alone = false
		}
	}
	if !alone || named&^s.used() == 0 {
		return
	}
	s.shown = true
	if y.keeps(namedIsDisowned) {
		s.post(disown{ends: upTo(s.made - 1), stay: s.used()})
	}
}

// end records that the server has confirmed the end of an id.
func (y *system) end(s *state, id int8, repeats rule) {
	late := s.calls[id].before
	s.calls[id] = call{phase: over}
	if !y.keeps(repeats) {
		return
	}
	s.ended = max(s.ended, id)
	if late && y.keeps(latePlansAgain) {
		s.due = true
	}
}

// recoveryMoves adds what follows a loss.
func (y *system) recoveryMoves(s *state, add func(string, func(*state))) {
	switch {
	case s.due:
		add("a recovery begins", func(s *state) {
			s.due, s.reading = false, true
			for i := range s.calls {
				c := &s.calls[i]
				c.before = c.before || c.phase == releases || c.phase == released || c.phase == cancels || c.phase == canceled
			}
			if y.keeps(numbersFirst) {
				s.read.ends = y.numbers(s)
			} else {
				s.read.stay = s.used()
			}
		})
	case s.reading && s.hasRoom():
		add("a recovery sends its script", func(s *state) {
			if y.keeps(numbersFirst) {
				s.read.stay = s.used()
			} else {
				s.read.ends = y.numbers(s)
			}
			if !y.keeps(usedStay) {
				s.read.stay = 0
			}
			s.post(s.read)
			s.read, s.reading = disown{}, false
			if !y.keeps(eachTime) {
				s.ended = -1
			}
		})
	}
	for i, d := range s.disowns {
		if !d.posted {
			continue
		}
		add("the script of a recovery ends the ended ids", func(s *state) {
			s.disowns[i] = disown{}
			for id := range s.made {
				if s.server.has(id) && d.ends.has(id) && !d.stay.has(id) {
					s.server.remove(id)
					s.killed = s.killed || s.calls[id].phase == holds || s.calls[id].phase == granted
				}
			}
		})
	}
}

// numbers returns the ids that a recovery ends, except those in use.
func (y *system) numbers(s *state) set {
	switch {
	case s.ended < 0:
		return 0
	case !y.keeps(laterStay):
		return upTo(maxIDs)
	}
	return upTo(s.ended)
}

func (s *state) hasRoom() bool { return !s.disowns[maxDisowns-1].posted }

func (s *state) post(d disown) {
	for i := range s.disowns {
		if !s.disowns[i].posted {
			d.posted = true
			s.disowns[i] = d
			return
		}
	}
}
