package idemmodel

// acquire is record_acquire.lua.
func (y *system) acquire(s *state, id int8) answer {
	run := runOf(id)
	if y.isSettled(&s.record, y.prints[owner(run)]) && y.keeps(decidedFirst) {
		return answer{outcome: settled, seen: s.record}
	}
	if former := id - 1; runOf(max(former, 0)) == run && y.keeps(formerEnds) && id > 0 {
		s.doneIDs |= bit[uint16](former) // it asks again in the place of that id
		y.release(s, former)
	}
	switch {
	case s.doneIDs&bit[uint16](id) != 0:
		return answer{outcome: notHeld}
	case s.holder == id+1:
	case s.holder != 0:
		if s.record.state == done {
			s.fault("a repetition waits though there is an answer")
		}
		return answer{outcome: busy}
	default:
		s.grant(id)
	}
	s.until = s.now + lease
	opened := y.open(s, id) == 1
	return answer{outcome: held, opened: opened, seen: s.record}
}

func (s *state) grant(id int8) {
	s.holder, s.until, s.since = id+1, s.now+lease, s.now
	s.counter++
	s.granted[id] = s.counter
}

// begin is record_begin.lua.
func (y *system) begin(s *state, id int8) answer {
	if s.holder != id+1 && y.keeps(holderBegins) {
		return answer{outcome: notHeld}
	}
	own := s.record.state == open && s.record.run == runOf(id)
	code := y.open(s, id)
	if own && code != 1 {
		s.fault("a call is refused because of its own run")
	}
	switch code {
	case 1:
		return answer{outcome: held, opened: true, seen: s.record}
	case 2:
		return answer{outcome: notHeld}
	}
	return answer{outcome: held, seen: s.record}
}

// isSettled is the function of record.lua.
func (y *system) isSettled(r *record, fingerprint int8) bool {
	return r.state == done && y.keeps(doneIsFinal) || r.state == open && r.print != fingerprint && y.keeps(openIsCompared)
}

// open is open_record of record.lua, with the token of the last hold of the id.
func (y *system) open(s *state, id int8) int {
	run, token, r := runOf(id), s.granted[id], &s.record
	fingerprint, of := y.prints[owner(run)], y.policy[owner(run)]
	if !y.keeps(opens) {
		return 1
	}
	if r.state == open && r.run == run && y.keeps(ownIsKnown) {
		r.until, r.id = s.now+y.ttl(), id
		s.lifeEnds = r.until
		return 1
	}
	if !y.keeps(refusedIsShort) && r.state != gone {
		r.until = s.now + y.ttl()
	}
	if y.isSettled(r, fingerprint) {
		return 0
	}
	if token <= r.token && y.keeps(tokensCompared) {
		return 2
	}
	if r.state == open {
		silent := r.silent
		if !r.returned && y.keeps(silentIsCounted) {
			silent++
		}
		if of != runAgain && y.keeps(policyIsAsked) || silent >= maxSilent {
			return 0
		}
		if r.silent = silent; y.keeps(replacedIsCounted) {
			r.earlier++
		}
	}
	r.state, r.run, r.id, r.print, r.token, r.returned = open, run, id, fingerprint, token, false
	r.until = s.now + y.ttl()
	s.lifeEnds, s.last = r.until, run
	return 1
}

func (y *system) ttl() int8 {
	if y.keeps(outlivesRun) {
		return ttl
	}
	return lease
}

// endRecord is end_record of record.lua. id only counts for a void, and found is whether the answer is not the run's own.
func (y *system) endRecord(s *state, run int8, how ending, id int8, found bool) bool {
	r := &s.record
	isRun := r.run == run || !y.keeps(endKnowsRun) && how != void
	switch {
	case !isRun || r.state == gone:
		return false
	case how == void && (r.id != id && y.keeps(voidKnowsID) || r.returned && y.keeps(voidIsOnce) && y.keeps(begunIsNotVoid)):
		return false
	case how == void && r.token == s.tokens[id] && y.keeps(begunIsNotVoid):
		return false
	case how == keep && r.state == open && s.holder != id+1 && !y.keeps(endNeedsNoLock):
		if r.run == run {
			s.fault("an answer is not recorded though no other run has begun")
		}
		return false
	case how == keep && r.state == open:
		s.record.state, r.run, r.until, r.found = done, run, s.now+y.ttl(), found
		s.lifeEnds = r.until
		if s.answered != 0 {
			s.fault("a record has two answers")
		}
		if s.last != abs(run) {
			s.fault("not the last run has given the answer")
		}
		s.answered, s.found, s.recorded = run, found, s.recorded|bit[uint8](abs(run))
		return true
	case r.state == done:
		if how == keep && s.answered != run {
			s.fault("a record has two answers")
		}
		return how == keep && y.keeps(endIsRepeatable) && (r.found == found || !y.keeps(endComparesAnswer))
	case how == leave:
		r.returned = true
	case how == void && r.earlier > 0 && y.keeps(voidKeepsOther):
		r.returned = true
		r.earlier--
		if y.keeps(voidIsOnce) {
			r.run = -run
		}
	default:
		y.forget(r)
	}
	return true
}

func (y *system) forget(r *record) {
	left := record{until: r.until, silent: r.silent}
	if y.keeps(forgetKeepsToken) {
		left.token = r.token
	}
	if y.keeps(forgetKeepsCount) {
		left.earlier = r.earlier
	}
	*r = left
}

// release is the rest of record_release.lua. The id is refused from now on if a copy of its acquire may arrive.
func (y *system) release(s *state, id int8) {
	if s.holder != id+1 {
		return
	}
	s.holder, s.until = 0, 0
	if s.copied&bit[uint16](id) != 0 && y.keeps(doneMarks) {
		s.doneIDs |= bit[uint16](id)
	}
}

// disown is disown.lua: it ends the hold that a process does not use any more.
func (y *system) disown(s *state, i int) {
	id, p := s.holder-1, &s.proc[i]
	switch {
	case s.holder == 0 || owner(runOf(id)) != i:
	case id == s.id(i) && p.phase >= asks && p.phase <= finishes && !p.lost: // in use
	case s.cancels&bit[uint16](id) != 0 && y.keeps(cancelledStays):
	default:
		y.release(s, id)
		if r := &s.record; r.state == open && r.id == id && s.unknown&bit[uint8](runOf(id)) == 0 {
			s.fault("the lock is free, and the record is open for a run that never works")
		}
	}
}

// cancel is record_cancel.lua.
func (y *system) cancel(s *state, id int8) {
	if y.keeps(cancelIsVoid) {
		y.endRecord(s, runOf(id), void, id, false)
	}
	if y.keeps(doneMarks) {
		s.doneIDs |= bit[uint16](id)
	}
	y.release(s, id)
}
