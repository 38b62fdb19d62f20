package protocol

// grant makes the id of t the holder, with the next token and a token for each member of the batch.
func (y *system) grant(s *state, t ticket, batch idents) {
	first := s.counter
	if y.keeps(tokensRise) || s.counter == 0 {
		first++
		s.counter = first
		if y.keeps(batchHasTokens) {
			s.counter += token(filled(batch[:]))
		}
		y.wrote(s)
	}
	s.holder, s.token, s.waiting = t.id, first, false
	if p := &s.process[t.id.process()]; p.id == t.id && p.is(keeps) {
		p.stood, p.since = 0, s.lastPlace()
		if t.keeps {
			p.stood = t.place
		}
	}
	s.noteGrant(t)
	y.wrote(s)
}

// phaseToken returns the token of the readers' phase, or of the phase that begins now.
func (y *system) phaseToken(s *state) token {
	switch {
	case s.isRead():
		return s.token
	case !y.keeps(readersFollow):
		return 0
	case s.counter == 0:
		s.counter = 1
		y.wrote(s)
	}
	return s.counter
}

// read makes id a reader. If there is no phase, it begins one with the token.
func (y *system) read(s *state, id ident, phase token) {
	if !s.isRead() {
		s.token = phase
	}
	if s.reads(id) {
		s.wrongs |= shortened // the id reads already, and its hold may last longer than a new one would
	} else {
		s.addReader(id)
	}
	y.wrote(s)
}

func (y *system) isRefused(s *state, id ident) bool { return y.keeps(doneIsRefused) && s.isDone(id) }

// markDone writes a done mark.
func (y *system) markDone(s *state, id ident) {
	s.done[id.process()] |= id.bit()
	y.wrote(s)
}

// remove takes a ticket off the queue, if it is there.
func (y *system) remove(s *state, id ident) {
	if s.index(id) >= 0 {
		s.dequeue(id)
		y.wrote(s)
	}
}

// end ends the hold of id, if there is one. It returns what has ended if that frees the lock.
func (y *system) end(s *state, id ident) end {
	e := s.end(id)
	y.wrote(s)
	return e
}

// removeAll takes some tickets off the queue.
func (y *system) removeAll(s *state, all idents) {
	for _, id := range all {
		y.remove(s, id)
	}
}

// take is the part of acquire.lua for a request that need not wait.
func (y *system) take(s *state, c command) bool {
	switch {
	case !c.reads:
		if !s.isFree() || s.queue[0].id != nobody {
			return false
		}
		t := ticket{id: c.id}
		if c.keeps {
			t.keeps, t.place = true, s.kept
		}
		y.grant(s, t, idents{})
		return true
	case s.holder != nobody, y.keeps(writersHoldBack) && s.hasWriter():
		return false
	}
	s.notePhase(!s.isRead())
	token := y.phaseToken(s)
	if y.keeps(takersLeave) {
		y.remove(s, c.id)
	}
	y.read(s, c.id, token)
	y.grantNextAndJudge(s, unknown)
	return true
}

// runAcquire is acquire.lua.
func (y *system) runAcquire(s *state, c command) answer {
	after := s.takeEnded()
	if c.predecessor != nobody {
		if e := y.end(s, c.predecessor); e != unknown {
			after = e
		}
		y.remove(s, c.predecessor)
		if c.mark {
			y.markDone(s, c.predecessor)
		}
	}
	if y.isRefused(s, c.id) {
		y.grantNextAndJudge(s, after)
		return answer{outcome: refused}
	}
	held := s.has(c.id)
	if !y.keeps(heldIsAnswered) && s.reads(c.id) {
		held = false
	}
	if held {
		s.waiting = false
	}
	if held || y.take(s, c) {
		return answer{granted, s.token, true}
	}
	if c.wait {
		if s.index(c.id) < 0 {
			seen := y.keeps(queuersAreSeen) || s.hasTicket(c.id.process(), false) // a process that has not waited for long has not been seen recently
			s.enqueue(c)
			s.queue[s.index(c.id)].unseen = !seen
			y.wrote(s)
		}
	}
	y.grantNextAndJudge(s, after)
	if s.has(c.id) || y.take(s, c) {
		s.waiting = false
		return answer{granted, s.token, true}
	}
	if c.wait {
		return answer{inQueue, s.counter, true}
	}
	if c.keeps && s.kept == 0 {
		s.kept = s.newPlace()
	}
	return answer{outcome: busy}
}

// runPoll is poll.lua for one ticket.
func (y *system) runPoll(s *state, id ident) answer {
	if after := s.takeEnded(); y.keeps(pollsGrant) {
		y.grantNextAndJudge(s, after)
	}
	switch {
	case s.has(id):
		s.waiting = false
		return answer{granted, s.token, true}
	case s.index(id) >= 0:
		return answer{inQueue, s.counter, true}
	}
	return answer{outcome: gone}
}

// runPeek is peek.lua for one ticket. Any other answer only leads to a poll.
func (y *system) runPeek(s *state, id ident) answer {
	switch {
	case s.holder == id:
		return answer{granted, s.token, true}
	case s.index(id) >= 0 && !s.isFree():
		return answer{asItWas, s.counter, true}
	}
	return answer{}
}

// runRenew is renew.lua.
func (y *system) runRenew(s *state, id ident) answer {
	if !s.has(id) {
		if !y.keeps(renewalsTouch) && s.holder == nobody {
			y.read(s, id, y.phaseToken(s))
		}
		return answer{outcome: notHeld}
	}
	s.waiting = false
	return answer{outcome: granted, good: true}
}

// runRelease is release.lua. It reports whether the hold was there.
func (y *system) runRelease(s *state, c command) bool {
	id := c.id
	if !y.keeps(idsAreCompared) && s.holder != nobody && s.holder.process() == c.id.process() {
		id = s.holder
	}
	if !s.has(id) {
		return false
	}
	if y.keeps(servedGoFirst) {
		y.removeAll(s, c.had)
	}
	after := y.end(s, id)
	if !y.keeps(ownShareEnds) && s.isRead() {
		s.readers = [maxReaders]ident{}
		after = reading
	}
	if c.mark {
		y.markDone(s, c.id)
	}
	y.giveUpPlace(s, c, keptIsReleased)
	if s.isFree() {
		y.grantNextAndJudge(s, after)
	}
	y.removeAll(s, c.had)
	return true
}

// giveUpPlace ends a kept place whose ticket was granted and has ended.
func (y *system) giveUpPlace(s *state, c command, by rule) {
	if !c.keeps {
		return
	}
	s.noteServed()
	if y.keeps(by) {
		s.kept = 0
		y.wrote(s)
	}
}

// undoPlace ends the kept place of a hold that may no longer be there to be released, unless another call has the place.
func (y *system) undoPlace(s *state, c command, held bool) {
	if held {
		y.giveUpPlace(s, c, keptIsUndone)
		return
	}
	if c.stood != 0 {
		s.served |= 1 << c.stood
	}
	if y.keeps(lossEndsPlace) && s.kept <= c.since {
		s.kept = 0
	}
}

// runDowngrade is downgrade.lua. It reports whether the hold was there.
func (y *system) runDowngrade(s *state, id ident) bool {
	switch {
	case s.holder == id:
		s.holder = nobody
		if !y.keeps(holdIsNeverAway) {
			y.wrote(s)
		}
		s.addReader(id)
		s.admit = 0
		y.wrote(s)
		before := *s
		if !y.keeps(downgradesAdmit) || !y.admitReaders(s, 0, true) {
			s.notePhase(true)
		}
		s.judge(&before, writing)
		return true
	case s.reads(id):
		if !y.keeps(downgradeIsOnce) {
			y.admitReaders(s, 0, false)
		}
		return true
	}
	return false
}

// runCancel is cancel.lua.
func (y *system) runCancel(s *state, c command) {
	after := s.takeEnded()
	if i := s.index(c.id); i >= 0 && c.keeps && !c.served && !y.keeps(placeIsCompared) {
		s.kept = s.queue[i].place
	}
	held := s.holder == c.id
	y.removeAll(s, c.had)
	for _, id := range c.had {
		if id != nobody && s.has(id) {
			after = y.end(s, id)
		}
	}
	if y.keeps(cancelFrees) {
		if e := y.end(s, c.id); e != unknown {
			after = e
		}
	}
	y.remove(s, c.id)
	if c.mark {
		y.markDone(s, c.id)
	}
	if c.served && y.keeps(cancelFrees) {
		y.undoPlace(s, c, held)
		y.wrote(s)
	}
	y.grantNextAndJudge(s, after)
}

func (s *state) takeEnded() end {
	e := s.ended
	s.ended = unknown
	return e
}

// expire ends a hold by its lease or its accept window. The deadline of its process has passed before: it counts from before
// the execution that set the expiry, and is earlier by the margin (rule 17). The model knows nothing else about time.
func (s *state) expire(id ident) end {
	if p := s.user(id); p != nil {
		p.window, p.answer.good, p.renewal.good = false, false, false
		for i := range p.polls {
			p.polls[i].good = false
		}
	}
	return s.end(id)
}
