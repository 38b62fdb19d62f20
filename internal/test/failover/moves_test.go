package failover

import "github.com/lockmw/go/internal/test/states"

// moves returns everything that can happen next.
func (y *system) moves(s *state) []states.Move[state] {
	steps := states.From(s)
	add := steps.By(states.Nobody)
	for i := range y.processes {
		y.processMoves(s, i, steps.By(i))
	}
	if s.lag > 0 {
		add("the replica receives a write", func(s *state) { s.catchUp() })
	}
	if s.faults.moves > 0 {
		add("the slot moves to a master whose replica has nothing of it", func(s *state) { y.moveSlot(s) })
	}
	if s.faults.failovers > 0 && !s.moved { // a fail-over takes longer than a doubtful hold counts
		add("the replica takes the master's place", func(s *state) { s.failOver() })
	}
	if y.faults.losses > 0 && s.saved != s.master {
		add("the data are saved", func(s *state) { s.saved = s.master })
	}
	if s.faults.losses > 0 {
		add("the server is replaced", func(s *state) {
			s.faults.losses--
			s.id++
			s.since, s.master = -1, s.saved
		})
	}
	if s.now < y.end {
		add("time passes", func(s *state) {
			s.now++
			s.moved = false
			for i := range s.proc {
				if p := &s.proc[i]; p.doubtful {
					p.deadline, p.doubtful = 0, false
				}
			}
			s.master.expire(s.now)
			s.saved.expire(s.now)
			for i := range s.behind {
				s.behind[i].expire(s.now)
			}
		})
	}
	return steps.All
}

// processMoves adds everything that a process can do, and what can happen to its messages.
func (y *system) processMoves(s *state, i int, add func(string, func(*state))) {
	me, p := int8(i+1), s.proc[i]
	works := s.now < p.deadline
	room := s.lag < maxLag
	if !y.replica && p.trusts != s.id {
		add("examines the server", func(s *state) { y.examine(s, i) })
	}
	switch p.phase {
	case idle:
		if works {
			add("sends a renewal", func(s *state) { s.proc[i].phase, s.proc[i].sent = renews, s.now })
			if y.jobs && !s.marked {
				add("sends a mark", func(s *state) { s.proc[i].phase = marks })
			}
			if room {
				add("releases", func(s *state) { y.release(s, i) })
			}
			break
		}
		if s.faults.losses < y.faults.losses && s.master.holder == me {
			add("repeats a release", func(s *state) { y.release(s, i) }) // because the server is a different one
		}
		if y.replica || y.keeps(runsCompare) || p.trusts == s.id { // otherwise an earlier command has compared the id
			add("sends an acquire", func(s *state) {
				s.proc[i] = process{phase: asks, sent: s.now, trusts: p.trusts, carries: p.trusts}
			})
		}
	case asks:
		if room {
			add("has its acquire executed", func(s *state) { y.acquire(s, i) })
		}
	case renews:
		switch {
		case s.master.holder != me:
			add("learns that its lock is lost", func(s *state) { s.ends(i) })
		case room:
			add("has its renewal executed", func(s *state) {
				y.renew(s, i)
				y.answered(s, i, renews, true)
			})
		}
	case marks:
		if room {
			add("has its mark written", func(s *state) { y.answered(s, i, marks, y.mark(s)) })
		}
	case waits:
		if p.wrote == 0 {
			add("learns that the replica has it", func(s *state) { s.counts(i) })
		}
		add("learns that the replica does not have it", func(s *state) { s.again(i) })
	case queued:
		add("polls", func(s *state) { y.poll(s, i) })
	case pushed:
		add("receives the message", func(s *state) {
			if y.replica && y.keeps(pushesDoNot) {
				s.proc[i].phase, s.proc[i].sent = asks, s.now
			} else {
				s.counts(i)
			}
		})
	}
	if !y.replica && (p.phase == queued || p.phase == pushed) {
		add("gives up", func(s *state) { s.giveUp(i) })
	}
	if (p.phase == asks || p.phase == renews || p.phase == marks) && s.faults.lost > 0 {
		add("gets no answer", func(s *state) {
			s.faults.lost--
			if p.phase == asks && room {
				y.acquire(s, i)
			}
			if p.phase == marks && room {
				y.mark(s)
			}
			s.again(i)
		})
	}
}

// examine finds out whether the server may grant.
func (y *system) examine(s *state, i int) {
	if s.since < 0 {
		s.since = s.now
	}
	if s.now-s.since >= y.quarantine() {
		s.proc[i].trusts = s.id
	}
}

// renew runs renew.lua for the process that holds the lock.
func (y *system) renew(s *state, i int) {
	to := s.master
	to.holder, to.until = int8(i+1), s.now+lease
	y.write(s, to)
}

// mark runs mark.lua, and reports whether it has written.
func (y *system) mark(s *state) (wrote bool) {
	if s.master.marked && !y.keeps(runsWrite) {
		return false
	}
	to := s.master
	to.marked = true
	y.write(s, to)
	return true
}

// acquire runs acquire.lua for a process.
func (y *system) acquire(s *state, i int) {
	me, m := int8(i+1), s.master
	switch {
	case !y.replica && y.keeps(runsCompare) && s.proc[i].carries != s.id:
		s.again(i)
	case m.holder == me: // the answer to an earlier execution is repeated
		writes := y.keeps(runsWrite) || m.until < s.now+lease
		if writes {
			y.renew(s, i)
		}
		y.answered(s, i, asks, writes)
	case m.holder == 0 && (m.waiter == 0 || m.waiter == me):
		m.holder, m.until, m.waiter = me, s.now+lease, 0
		y.write(s, m)
		y.answered(s, i, asks, true)
	default:
		m.waiter = me
		y.write(s, m)
		s.proc[i].phase = queued
	}
}

// poll runs poll.lua for a process, or acquire.lua if the replica has to acknowledge the grant.
func (y *system) poll(s *state, i int) {
	me, m := int8(i+1), &s.master
	switch {
	case y.replica:
		s.proc[i].phase, s.proc[i].sent = asks, s.now
	case y.keeps(pollsAreGated) && s.proc[i].trusts != s.id:
	case m.holder == me, m.holder == 0 && m.waiter == me:
		if m.waiter == me {
			m.waiter = 0
		}
		m.holder, m.until = me, s.now+lease
		s.proc[i].sent = s.now
		s.counts(i)
	case m.waiter != me: // the server has lost the ticket
		s.again(i)
	}
}

// answered ends an execution for a process, and starts its WAIT.
func (y *system) answered(s *state, i int, of phase, wrote bool) {
	p := &s.proc[i]
	p.of = of
	if y.replica && y.keeps(map[phase]rule{asks: grantsWait, renews: renewalsWait, marks: notesWait}[of]) {
		p.phase, p.wrote = waits, 0
		if wrote && y.keeps(sameConnection) {
			p.wrote = s.lag
		}
		return
	}
	s.counts(i)
}

// counts moves the deadline of a process, or makes it rely on its mark.
func (s *state) counts(i int) {
	p := &s.proc[i]
	if p.of == marks {
		s.marked = true
		s.again(i)
		return
	}
	*p = process{deadline: max(p.deadline, p.sent+lease), trusts: p.trusts}
}

// again returns a process without an answer to its former state.
func (s *state) again(i int) {
	s.proc[i] = process{deadline: s.proc[i].deadline, doubtful: s.proc[i].doubtful, trusts: s.proc[i].trusts}
}

// ends ends the work of a process.
func (s *state) ends(i int) { s.proc[i] = process{trusts: s.proc[i].trusts} }

// giveUp removes a process' hold and ticket from the server.
func (s *state) giveUp(i int) {
	me := int8(i + 1)
	if s.master.holder == me {
		s.master.holder, s.master.until = 0, 0
	}
	if s.master.waiter == me {
		s.master.waiter = 0
	}
	s.ends(i)
}

// release ends the hold of a process, and grants the lock to the waiting one.
func (y *system) release(s *state, i int) {
	s.ends(i)
	if s.master.holder != int8(i+1) {
		return
	}
	to := s.master
	next := to.waiter
	if next == 0 || !y.replica && y.keeps(releasesAreGated) && s.proc[i].trusts != s.id {
		to.holder, to.until = 0, 0
		y.write(s, to)
		return
	}
	to.holder, to.until, to.waiter = next, s.now+lease, 0
	y.write(s, to)
	if p := &s.proc[next-1]; p.phase == queued {
		p.phase, p.sent = pushed, s.now
	}
}

// write changes the master. The replica follows later.
func (y *system) write(s *state, c copied) {
	if y.replica {
		s.behind[s.lag] = s.master
		s.lag++
	}
	s.master = c
}

// catchUp applies one more write to the replica.
func (s *state) catchUp() {
	copy(s.behind[:], s.behind[1:])
	s.lag--
	s.behind[s.lag] = copied{}
	for i := range s.proc {
		s.proc[i].wrote = max(s.proc[i].wrote-1, 0)
	}
}

// moveSlot moves the slot, with all data, to another master. The processes learn of it: answers of the old master no longer
// count, and holds become doubtful.
func (y *system) moveSlot(s *state) {
	s.faults.moves--
	s.lag, s.behind, s.moved = 1, [maxLag]copied{}, true
	for i := range s.proc {
		p := &s.proc[i]
		if p.phase == waits {
			s.again(i)
		}
		p.doubtful = p.deadline > s.now && y.keeps(movesEnd)
	}
}

// failOver promotes the replica as it is. Messages in flight to the old master are lost.
func (s *state) failOver() {
	s.faults.failovers--
	if s.lag > 0 {
		s.master = s.behind[0]
	}
	s.lag, s.behind = 0, [maxLag]copied{}
	for i := range s.proc {
		switch s.proc[i].phase {
		case waits, asks, renews, marks, queued:
			s.again(i)
		}
	}
}

// expire frees a lock whose lease has expired.
func (c *copied) expire(now int8) {
	if c.holder != 0 && now >= c.until {
		c.holder, c.until = 0, 0
	}
}
