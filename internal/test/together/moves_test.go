package together

import "github.com/lockmw/go/internal/test/states"

// A move is a move of a call. A fault may never happen.
type move struct {
	states.Move[state]
	Fault bool
}

// moves returns everything that can happen next.
func (y *system) moves(s *state) (all []move) {
	for i := range y.wants {
		add := func(name string, fault bool, change func(*state)) {
			to := *s
			change(&to)
			all = append(all, move{states.Move[state]{Move: states.Action{Process: i, Name: name}, To: to}, fault})
		}
		y.callMoves(s, i, add)
		c := s.call[i]
		if c.late {
			add("has a copy of its multi-acquire executed", false, func(s *state) {
				s.call[i].late = false
				y.acquireAll(s, i, -1)
			})
		}
		for k := range keys {
			if c.cancel[k] {
				add("has a cancel executed", false, func(s *state) {
					s.call[i].cancel[k] = false
					s.lock[k].done |= multiID(i).bit()
					s.end(multiID(i), k)
				})
			}
		}
	}
	return all
}

// callMoves adds everything that a call can do.
func (y *system) callMoves(s *state, i int, add func(name string, fault bool, change func(*state))) {
	switch c := s.call[i]; c.phase {
	case idle:
		y.acquireAllMoves(s, i, add)
	case asked:
		add("receives the answer to its multi-acquire", false, func(s *state) { y.onAnswer(s, i) })
		if s.faults.silences > 0 {
			add("receives no answer to its multi-acquire", true, func(s *state) {
				s.faults.silences--
				y.giveUp(s, i, y.keeps(silenceIsUndone))
			})
		}
	case orderly:
		add("takes the next lock", false, func(s *state) { y.takeNext(s, i) })
	case runs:
		add("unlocks", false, func(s *state) { y.release(s, i, keys) })
		if s.faults.cuts > 0 {
			add("unlocks, and the script is cut off", true, func(s *state) {
				s.faults.cuts--
				y.release(s, i, 1)
			})
		}
	}
}

// acquireAllMoves adds the ways in which a multi-acquire may be sent.
func (y *system) acquireAllMoves(s *state, i int, add func(name string, fault bool, change func(*state))) {
	if y.wants[i] != both {
		add("begins", false, func(s *state) { s.call[i].phase = orderly })
		return
	}
	add("sends a multi-acquire", false, func(s *state) {
		s.call[i].phase = asked
		s.call[i].answer = y.acquireAll(s, i, -1)
	})
	if s.faults.copies > 0 {
		add("sends a multi-acquire that is written twice", true, func(s *state) {
			s.faults.copies--
			s.call[i].phase, s.call[i].copied, s.call[i].late = asked, true, true
			s.call[i].answer = y.acquireAll(s, i, -1)
		})
	}
	if s.faults.silences > 0 {
		add("sends a multi-acquire that arrives late", true, func(s *state) {
			s.faults.silences--
			s.call[i].late = true
			y.giveUp(s, i, y.keeps(silenceIsUndone))
		})
	}
	for writes := range keys {
		if s.faults.cuts > 0 {
			add("sends a multi-acquire that is cut off", true, func(s *state) {
				s.faults.cuts--
				s.call[i].phase = asked
				s.call[i].answer = y.acquireAll(s, i, writes)
			})
		}
	}
}

// acquireAll is acquire_all.lua. It is cut off after so many locks, unless writes is negative.
func (y *system) acquireAll(s *state, i, writes int) answer {
	id := multiID(i)
	free, held, done := 0, 0, 0
	for k := range s.lock {
		l := &s.lock[k]
		switch {
		case l.holder == 0:
			free++
		case l.holder == id || !y.keeps(idsAreCompared):
			held++
		}
		if l.done&id.bit() != 0 {
			done++
		}
	}
	switch {
	case done == keys || done > 0 && y.keeps(anyDoneRefuses):
		return refused
	case held == keys:
		return granted
	case free < keys && y.keeps(allOrNone) && y.keeps(nothingIsKept):
		return refused
	}
	if y.keeps(tokenIsNew) {
		s.counter++
	}
	for k := range s.lock {
		if writes == k {
			return cut
		}
		if s.lock[k].holder == 0 {
			s.grant(id, k, max(s.counter, 1))
		}
	}
	if free < keys {
		return refused
	}
	return granted
}

// onAnswer handles the answer to a multi-acquire.
func (y *system) onAnswer(s *state, i int) {
	c := &s.call[i]
	switch {
	case c.answer == granted:
		c.phase, c.has = runs, [keys]ident{multiID(i), multiID(i)}
	case c.answer == cut:
		y.giveUp(s, i, y.keeps(cutIsUndone))
	case !y.keeps(nothingIsKept):
		c.phase = orderly
		for k := range s.lock {
			if s.lock[k].holder == multiID(i) {
				c.has[k] = multiID(i)
			}
		}
	default:
		y.giveUp(s, i, c.copied && y.keeps(refusalIsUndone))
	}
	s.call[i].answer = none
}

// giveUp ends a multi-acquire. The call then takes one lock after the other.
func (y *system) giveUp(s *state, i int, cancel bool) {
	s.call[i].phase, s.call[i].cancel = orderly, [keys]bool{cancel, cancel}
}

// takeNext acquires the first lock that the call does not hold.
func (y *system) takeNext(s *state, i int) {
	c, id := &s.call[i], singleID(i)
	for n := range keys {
		k := n
		if i == 1 && !y.keeps(inKeyOrder) {
			k = keys - 1 - n
		}
		if !y.wants[i][k] || c.has[k] != 0 {
			continue
		}
		if l := &s.lock[k]; l.holder != 0 {
			l.enqueue(id)
			c.phase = waits
			return
		}
		s.counter++
		s.grant(id, k, s.counter)
		c.has[k] = id
		return
	}
	c.phase = runs
}

// release ends all holds by one script, which is cut off after so many.
func (y *system) release(s *state, i, writes int) {
	c := &s.call[i]
	for k := range s.lock {
		if k < writes || y.keeps(releaseIsRepeated) {
			s.end(c.has[k], k)
		}
	}
	// An id whose acquire was copied gets a done mark.
	for k := range s.lock {
		if c.copied && c.has[k] == multiID(i) {
			s.lock[k].done |= multiID(i).bit()
		}
	}
	c.has, c.phase = [keys]ident{}, over
}
