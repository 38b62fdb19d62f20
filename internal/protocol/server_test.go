package protocol

// settle grants a free lock to the first live ticket (rule 5), and publishes that (rule 6).
func (y *system) settle(s *state) {
	for s.holder == nobody && s.queue[0].id != nobody {
		t := s.queue[0]
		if t.unseen && !y.keeps(deadAreReaped) {
			return
		}
		s.drop(t.id)
		if t.unseen {
			continue
		}
		y.grant(s, t.id)
		s.waiting = !y.keeps(grantsExpire)
		s.publish(t.id, s.token)
	}
}

// grant makes id the holder, with the next token.
func (y *system) grant(s *state, id ident) {
	if y.keeps(tokensRise) || s.counter == 0 {
		s.counter++
	}
	s.holder, s.token, s.waiting = id, s.counter, false
}

func (y *system) isRefused(s *state, id ident) bool { return y.keeps(doneIsRefused) && s.isDone(id) }

// markDone notes that an id is over.
func (y *system) markDone(s *state, id ident) { s.done[id.process()] |= id.bit() }

// runAcquire is acquire.lua.
func (y *system) runAcquire(s *state, c command) answer {
	free := func() bool { return s.holder == nobody && s.queue[0].id == nobody }
	if c.former != nobody {
		if s.holder == c.former {
			s.holder = nobody
		} else {
			s.drop(c.former)
		}
		if c.mark {
			y.markDone(s, c.former)
		}
	}
	if y.isRefused(s, c.id) {
		y.settle(s)
		return answer{kind: refused}
	}
	if free() {
		y.grant(s, c.id)
		return answer{granted, s.token, true}
	}
	if c.wait && s.holder != c.id {
		if s.place(c.id) < 0 {
			s.enqueue(c.id, c.lost)
		}
		s.queue[s.place(c.id)].unseen = false
	}
	y.settle(s)
	if free() { // all who waited were dead
		y.grant(s, c.id)
	}
	switch {
	case s.holder == c.id:
		s.waiting = false
		return answer{granted, s.token, true}
	case c.wait:
		return answer{inQueue, s.counter, true}
	}
	return answer{kind: busy}
}

// runPoll is poll.lua for one ticket.
func (y *system) runPoll(s *state, id ident) answer {
	place := s.place(id)
	if place >= 0 {
		s.queue[place].unseen = false
	}
	if y.keeps(settles) {
		y.settle(s)
	}
	switch {
	case s.holder == id:
		s.waiting = false
		return answer{granted, s.token, true}
	case place >= 0:
		return answer{inQueue, s.counter, true}
	}
	return answer{kind: gone}
}

// runRenew is renew.lua.
func (y *system) runRenew(s *state, id ident) answer {
	if s.holder != id {
		return answer{kind: notHeld}
	}
	s.waiting = false
	return answer{kind: granted, good: true}
}

// runRelease is release.lua. It says whether the hold was there.
func (y *system) runRelease(s *state, c command) bool {
	ours := s.holder == c.id
	if !y.keeps(idsAreCompared) {
		ours = s.holder != nobody && s.holder.process() == c.id.process()
	}
	if !ours {
		return false
	}
	s.holder = nobody
	if c.mark {
		y.markDone(s, c.id)
	}
	y.settle(s)
	return true
}

// runCancel is cancel.lua.
func (y *system) runCancel(s *state, c command) {
	s.drop(c.id)
	if s.holder == c.id && y.keeps(cancelFrees) {
		s.holder = nobody
	}
	if c.mark {
		y.markDone(s, c.id)
	}
	y.settle(s)
}

// expire ends the lease or the accept window of the holder. Whatever its process was promised on the
// strength of it has run out before, as each deadline is counted from before the run that set the
// expiry, and is earlier by the margin. This is all the model knows of time.
func (s *state) expire() {
	p := &s.process[s.holder.process()]
	if p.id == s.holder {
		p.window, p.answer.good, p.renewal.good = false, false, false
		for i := range p.polls {
			p.polls[i].good = false
		}
	}
	s.holder = nobody
}
