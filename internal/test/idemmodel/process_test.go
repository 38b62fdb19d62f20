package idemmodel

// onAcquired handles the answer to an acquire.
func (y *system) onAcquired(s *state, i int) {
	p := &s.proc[i]
	a := p.answer
	p.answer = answer{}
	switch a.outcome {
	case settled:
		y.refused(s, i)
		y.decided(s, i, &a.seen)
	case busy:
		p.phase = waits
	case notHeld:
		p.phase = over
	case held:
		switch {
		case s.now >= p.sent+lease && y.keeps(lateIsUnused):
			p.phase = asks
			y.giveUp(s, i)
		case a.opened:
			y.starts(s, i, a.seen.earlier)
		default:
			p.phase = holds
		}
	}
}

// onBegun handles the answer to a begin.
func (y *system) onBegun(s *state, i int) {
	p := &s.proc[i]
	a := p.answer
	p.answer = answer{}
	switch {
	case a.outcome == notHeld:
		y.giveUp(s, i)
	case a.opened:
		y.starts(s, i, a.seen.earlier)
	case y.isDecided(i, &a.seen):
		y.drop(s, i)
		y.decided(s, i, &a.seen)
	case y.policy[i] == recovers && a.seen.state == open:
		p.phase, p.target, p.ending = settles, a.seen.run, forget
		if s.did&s.unknown != 0 {
			p.ending = keep
		}
	default:
		y.drop(s, i)
		p.phase = over
	}
}

// drop releases a hold whose run has not begun: a copy of its begin may still have opened the record.
func (y *system) drop(s *state, i int) {
	if y.keeps(releaseIsVoid) {
		y.endRecord(s, s.run(i), void, s.id(i), false)
	}
	y.release(s, s.id(i))
}

// refused cancels an id that was refused, if a copy of its acquire may still arrive.
func (y *system) refused(s *state, i int) {
	if s.copied&bit[uint16](s.id(i)) != 0 {
		y.cancels(s, i)
	}
}

func (y *system) isDecided(i int, r *record) bool {
	return r.state == done || r.state == open && r.print != y.prints[i]
}

// decided ends a call for which the record decides.
func (y *system) decided(s *state, i int, r *record) {
	if r.state == done && (r.print == y.prints[i] || !y.keeps(doneIsCompared)) {
		y.sends(s, i, r.run, r.found)
		return
	}
	s.proc[i].phase, s.proc[i].answer = over, answer{}
}

// settleMoves adds the end of an earlier run, which has been found out.
func (y *system) settleMoves(s *state, i int, add add) {
	p := s.proc[i]
	if p.answer.outcome == none {
		y.executes(s, i, add, "has the end of an earlier run recorded", func(s *state) answer {
			ok := y.endRecord(s, p.target, p.ending, s.id(i), true)
			if ok && p.ending == forget {
				s.unknown, s.silent = 0, 0
			}
			return yes(ok)
		}, nil)
		return
	}
	add("gets the answer", func(s *state) {
		q := &s.proc[i]
		isOK := q.answer.outcome == ended
		q.answer = answer{}
		switch {
		case p.ending == keep && isOK:
			y.drop(s, i)
			y.sends(s, i, p.target, true)
		default: // if the run has ended meanwhile, the record says how
			q.phase, q.ending = holds, noEnd
		}
	})
}

func yes(ok bool) answer {
	if ok {
		return answer{outcome: ended}
	}
	return answer{outcome: wrong}
}

// workMoves adds what a run does.
func (y *system) workMoves(s *state, i int, add add) {
	p, run := s.proc[i], bit[uint8](s.run(i))
	if !p.worked {
		add("does the work", func(s *state) {
			s.proc[i].worked = true
			s.did |= run
		})
	}
	all := y.ends
	if all == nil {
		all = []ending{keep}
	}
	for _, how := range all {
		if how == keep && !p.worked || how == forget && p.worked {
			continue
		}
		add([...]string{keep: "has an answer", forget: "has done nothing", leave: "fails"}[how], func(s *state) {
			q := &s.proc[i]
			q.phase, q.ending = finishes, how
			if !y.keeps(recordFirst) && how == keep {
				q.phase = releases
			}
			s.silent &^= run
			if how == forget {
				s.unknown &^= run
			}
		})
	}
}

// finish is the execution that ends a run, and releases its lock unless that is lost.
func (y *system) finish(s *state, i int) answer {
	p, id := &s.proc[i], s.id(i)
	if p.ending == void && !y.keeps(releaseIsVoid) {
		y.release(s, id)
		return answer{outcome: ended}
	}
	began := s.record.state == open && s.record.run == s.run(i)
	ok := y.endRecord(s, s.run(i), p.ending, id, false)
	if began && p.ending == keep && !ok {
		s.fault("an answer is not recorded though no other run has begun")
	}
	if !p.lost {
		y.release(s, id)
	}
	return yes(ok)
}

// onEnded handles the answer to the end of a run.
func (y *system) onEnded(s *state, i int) {
	p := &s.proc[i]
	isOK, how := p.answer.outcome == ended, p.ending
	p.phase, p.answer, p.ending = over, answer{}, noEnd
	if how != keep {
		return
	}
	if isOK || !y.keeps(recordedIsSent) {
		y.sends(s, i, s.run(i), false)
	} else if s.answered == s.run(i) && !s.found {
		s.fault("an answer that is recorded is not sent")
	}
}
