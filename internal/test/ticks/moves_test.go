package ticks

import "github.com/lockmw/go/internal/test/states"

type move = states.Move[state]

// moves returns everything that can happen next. Sure moves come before the next step of time.
func (y *system) moves(s *state) (all []move) {
	anySure := false
	add := func(name string, i int, sure bool, change func(*state)) {
		to := *s
		change(&to)
		all = append(all, move{Move: states.Action{Process: i, Name: name}, To: to})
		anySure = anySure || sure
	}
	for i := range y.calls {
		if p := s.call[i].phase; s.faults.quits > 0 && (p == waits || p == holds || p == asked) {
			add("is cancelled by its caller", i, false, func(s *state) {
				s.faults.quits--
				y.release(s, i)
				s.returnWith(y, i, none)
			})
		}
		y.callMoves(s, i, func(name string, sure bool, change func(*state)) { add(name, i, sure, change) })
		if hold := s.late[i]; hold != 0 {
			add("a copy of its begin arrives", i, false, func(s *state) {
				s.late[i] = 0
				y.begin(s, i, hold)
			})
		}
		if p := s.call[i].phase; s.faults.deaths > 0 && p != idle && p < over {
			add("dies", i, false, func(s *state) {
				s.faults.deaths--
				y.cut(s, i)
				s.call[i].phase = dead
			})
		}
	}
	if s.faults.restarts > 0 {
		add("the server restarts without its data", states.Nobody, false, func(s *state) { y.restart(s) })
	}
	y.steps(s, anySure, func(name string, i int, change func(*state)) { add(name, i, false, change) })
	return all
}

// callMoves adds everything that a call can do.
func (y *system) callMoves(s *state, i int, add func(name string, sure bool, change func(*state))) {
	c, from := s.call[i], y.calls[i]
	lock := &s.lock[y.lockOf(from.tick)]
	patient := s.now <= instant(from.tick)+from.late+within
	switch c.phase {
	case idle:
		if s.now >= instant(from.tick)+from.late && patient {
			add("starts", false, func(s *state) { s.call[i].phase = waits })
		}
	case waits:
		switch {
		case lock.hold == 0:
			add("acquires the lock", true, func(s *state) { y.grant(s, i) })
		case !y.keeps(busyIsWaitedFor):
			add("finds the lock busy", true, func(s *state) { s.returnWith(y, i, ran) })
		case !patient:
			add("gives up", true, func(s *state) { s.returnWith(y, i, busy) })
		}
	case holds:
		if c.lost {
			add("learns that its lock is lost", true, func(s *state) { s.call[i].phase = waits })
			return
		}
		add("begins", true, func(s *state) {
			s.call[i].answer = y.begin(s, i, c.hold)
			s.call[i].phase = asked
		})
		if s.faults.losses > 0 {
			add("begins without an answer", false, func(s *state) {
				s.faults.losses--
				y.begin(s, i, c.hold)
			})
		}
		if s.faults.copies > 0 && s.late[i] == 0 {
			add("begins late", false, func(s *state) {
				s.faults.copies--
				s.late[i] = c.hold
			})
		}
	case asked:
		add("reads the answer", true, func(s *state) { y.onBegun(s, i) })
	case runs:
		add("ends its run", false, func(s *state) { y.onRun(s, i) })
		if s.faults.failures > 0 && !c.lost {
			add("fails", false, func(s *state) {
				s.faults.failures--
				s.call[i].fails = true
				y.onRun(s, i)
			})
		}
	case ended, released:
		y.markMoves(s, i, add)
	case confirmed:
		add("reads that it is marked", true, func(s *state) {
			y.release(s, i)
			s.returnWith(y, i, ranHere)
		})
	}
}

// markMoves adds everything that can happen to the mark.
func (y *system) markMoves(s *state, i int, add func(name string, sure bool, change func(*state))) {
	tick := y.calls[i].tick
	add("marks", true, func(s *state) {
		y.mark(s, tick)
		s.call[i].phase = confirmed
	})
	if s.faults.losses > 0 {
		for _, arrives := range []bool{true, false} {
			add("marks without an answer", false, func(s *state) {
				s.faults.losses--
				if arrives {
					y.mark(s, tick)
				}
				if !y.keeps(markIsRepeated) {
					y.release(s, i)
					s.returnWith(y, i, ranHere)
				}
			})
		}
	}
	if s.faults.refusals > 0 {
		add("is refused the mark", false, func(s *state) {
			s.faults.refusals--
			if lock := &s.lock[y.lockOf(tick)]; y.keeps(unmarkedKeeps) && lock.hold == s.call[i].hold {
				lock.hold, lock.until = -1, max(s.now, instant(tick)+within)
			}
			y.release(s, i)
			s.returnWith(y, i, ranHere)
		})
	}
}

// steps adds the next step of time. It is early if a sure move has not happened yet.
func (y *system) steps(s *state, early bool, add func(string, int, func(*state))) {
	if s.now == end {
		return
	}
	if early && s.faults.early == 0 {
		return
	}
	step := func(paused int) func(*state) {
		return func(s *state) {
			if early {
				s.faults.early--
			}
			if paused >= 0 {
				s.faults.pauses--
			}
			y.step(s, paused)
		}
	}
	add("time passes", states.Nobody, step(-1))
	for i, c := range s.call {
		if s.faults.pauses > 0 && c.phase != dead && y.has(s, i) {
			add("is paused", i, step(i))
		}
	}
}

// has reports whether a call holds the lock.
func (y *system) has(s *state, i int) bool {
	return i < len(y.calls) && s.call[i].hold != 0 && s.lock[y.lockOf(y.calls[i].tick)].hold == s.call[i].hold
}

// step advances the time. Live replicas renew their leases, except a paused one.
func (y *system) step(s *state, paused int) {
	for i, c := range s.call {
		if i != paused && c.phase != dead && y.has(s, i) {
			s.lock[y.lockOf(y.calls[i].tick)].until = s.now + lease
		}
	}
	s.now++
	for l := range s.lock {
		if k := &s.lock[l]; k.hold != 0 && s.now > k.until {
			for i := range s.call {
				if y.has(s, i) && y.lockOf(y.calls[i].tick) == int8(l) && !s.call[i].lost {
					y.lose(s, i)
				}
			}
			*k = lock{}
		}
	}
	for t := range s.note {
		if s.now > s.note[t].until {
			s.note[t] = note{}
		}
	}
}

// restart removes the server's data. Holders notice, and their holds end.
func (y *system) restart(s *state) {
	s.faults.restarts--
	for i := range s.call {
		if s.call[i].phase != dead && y.has(s, i) && !s.call[i].lost {
			y.lose(s, i)
		}
	}
	s.note = [maxTicks]note{}
	length := int8(quarantine)
	if !y.keeps(quarantineLasts) {
		length-- // exactly 2 D
	}
	for l := range s.lock {
		s.lock[l] = lock{hold: -1, until: s.now + length - 1}
	}
}

// lose ends the hold of a call, and its context.
func (y *system) lose(s *state, i int) {
	y.cut(s, i)
	s.call[i].lost = true
}

// cut records that a run is cut short, or that the mark of an ended run may be missing.
func (y *system) cut(s *state, i int) {
	c, t := &s.call[i], &s.tally[y.calls[i].tick]
	if !c.lost && (c.phase == runs || c.phase == ended && !c.fails || c.phase == ended && y.keeps(failureIsMarked)) {
		t.cut++
	}
}

func (y *system) lockOf(tick int8) int8 {
	if y.keeps(oneLock) {
		return 0
	}
	return tick
}

func (y *system) grant(s *state, i int) {
	s.holds++
	s.call[i] = call{phase: holds, hold: s.holds}
	s.lock[y.lockOf(y.calls[i].tick)] = lock{hold: s.holds, until: s.now + lease - 1}
}

func (y *system) release(s *state, i int) {
	if y.has(s, i) {
		s.lock[y.lockOf(y.calls[i].tick)] = lock{}
	}
}

// begin is begin.lua.
func (y *system) begin(s *state, i int, hold int8) answer {
	tick := y.calls[i].tick
	n, t := &s.note[tick], &s.tally[tick]
	holder := s.lock[y.lockOf(tick)].hold == hold
	switch known := n.by[0] == hold || n.by[1] == hold; {
	case !holder && y.keeps(holdIsCompared):
		return lost
	case n.ran && y.keeps(marksAreRead):
		return ran
	case known && y.keeps(copiesAreKnown):
		return begun
	case distance(s.now, instant(tick)) > within && y.keeps(clockIsChecked):
		return off
	case n.by[1] != 0 && y.keeps(begunIsCounted):
		return failed
	case n.by[0] == 0:
		n.by[0] = hold
	default:
		n.by[1] = hold
	}
	if holder && n.by[0] != n.by[1] {
		t.begun++
	}
	if distance(s.now, instant(tick)) > within {
		s.broken = inTime
	}
	n.until = s.now + y.keep()
	return begun
}

// mark is mark.lua.
func (y *system) mark(s *state, tick int8) {
	s.note[tick].ran = true
	s.note[tick].until = max(s.note[tick].until, s.now+y.keep())
}

func (y *system) keep() int8 {
	if y.keeps(notesLast) {
		return keep
	}
	return within
}

func distance(a, b int8) int8 { return max(a-b, b-a) }

// onBegun handles the answer to begin.
func (y *system) onBegun(s *state, i int) {
	c, tick := &s.call[i], y.calls[i].tick
	switch {
	case c.lost && y.keeps(lateIsUnused) || c.answer == lost:
		*c = call{phase: waits}
	case c.answer == begun:
		c.phase = runs
		s.tally[tick].runs++
		for j, other := range s.call {
			if j != i && other.phase == runs && !other.lost {
				s.broken = alone
			}
		}
	default:
		y.release(s, i)
		s.returnWith(y, i, c.answer)
	}
}

// onRun handles the end of a run.
func (y *system) onRun(s *state, i int) {
	c, t := &s.call[i], &s.tally[y.calls[i].tick]
	if !c.lost {
		t.whole++
	}
	switch {
	case c.lost && y.keeps(lossIsNotMarked):
		s.returnWith(y, i, lost)
		return
	case c.fails && !y.keeps(failureIsMarked):
		y.release(s, i)
		s.returnWith(y, i, ranHere)
		return
	}
	c.phase = ended
	if !y.keeps(markIsFirst) {
		y.release(s, i)
		c.phase = released
	}
}

// returnWith ends a call.
func (s *state) returnWith(y *system, i int, with answer) {
	tick := y.calls[i].tick
	switch t := s.tally[tick]; {
	case with == ran && t.whole == 0:
		s.broken = elsewhere
	case with == failed && t.begun < 2:
		s.broken = begunTwo
	case with == busy && s.lock[y.lockOf(tick)].hold == 0:
		s.broken = waitsOn
	}
	s.call[i].phase, s.call[i].answer = over, with
}
