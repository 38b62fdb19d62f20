package protocol

import "slices"

// grantNextAndJudge runs grantNext and checks the result.
func (y *system) grantNextAndJudge(s *state, after end) {
	before := *s
	y.grantNext(s, after)
	s.judge(&before, after)
}

// grantNext grants a free lock to live tickets (rules 5 and 12) and publishes the grants (rule 6). After a writer it admits the
// waiting readers, after readers one waiting writer. If it does not know what has ended, the head of the queue decides. If one
// side is empty, the other has its turn. While readers hold the lock and no writer waits, it admits the waiting readers.
func (y *system) grantNext(s *state, after end) {
	switch {
	case s.holder != nobody || s.queue[0].id == nobody:
	case s.queue[0].unseen && !y.keeps(deadAreReaped):
	case s.isRead():
		if s.admit != 0 && s.hasReader() || !y.holdsBack(s) {
			y.admitReaders(s, s.admit, false)
		}
	case s.admit != 0 && y.keeps(restIsAdmitted) && y.admitReaders(s, s.admit, true):
	case y.readersFirst(s, after) && y.admitReaders(s, 0, true):
	default:
		if t := y.nextWriter(s); t.id != nobody {
			y.handOver(s, t)
			return
		}
		y.admitReaders(s, 0, true)
	}
}

// handOver grants the lock to a writer's ticket. The grant is published after it is written (rule 19).
func (y *system) handOver(s *state, t ticket) {
	batch := y.grantBatch(s, t)
	if !y.keeps(pushIsLast) {
		s.publish(t.id, news{s.counter + 1, s.counter + 1, batch})
		y.wrote(s)
	}
	y.remove(s, t.id)
	y.grant(s, t, batch)
	s.waiting = !y.keeps(grantsExpire)
	if y.keeps(pushIsLast) {
		s.publish(t.id, news{s.token, s.token, batch})
	}
}

// readersFirst reports whether it is the readers' turn.
func (y *system) readersFirst(s *state, after end) bool {
	switch {
	case after == writing && y.keeps(readersGoFirst):
		return true
	case after == reading:
		return !y.keeps(writersGoFirst)
	}
	return s.queue[0].reads
}

// holdsBack reports whether a waiting writer holds readers back.
func (y *system) holdsBack(s *state) bool {
	if !y.keeps(deadHoldNobody) {
		return s.hasWriter()
	}
	return y.nextWriter(s).id != nobody
}

func (s *state) hasWriter() bool {
	return slices.ContainsFunc(s.queue[:], func(t ticket) bool { return t.id != nobody && !t.reads })
}

func (s *state) hasReader() bool {
	return slices.ContainsFunc(s.queue[:], func(t ticket) bool { return t.reads })
}

// nextWriter returns the first live ticket of a writer, and removes dead ones before it.
func (y *system) nextWriter(s *state) ticket {
	for i := 0; s.queue[i].id != nobody; {
		switch t := s.queue[i]; {
		case t.reads:
			i++
		case t.unseen:
			y.noteDead(s, t.id)
			s.dequeue(t.id)
		default:
			return t
		}
	}
	return ticket{}
}

// admitReaders admits the waiting readers, up to a place if one is given. They begin a phase, or join one. It reports whether
// it admitted any, or the next execution is to admit more. The number of their pushes is above all earlier stamps, and not
// above any later one.
func (y *system) admitReaders(s *state, upTo place, begin bool) bool {
	number := s.counter + 1
	if !s.hasReader() {
		return false
	}
	phase := y.phaseToken(s)
	if y.keeps(numberIsReserved) || s.counter == 0 {
		s.counter = max(s.counter, number)
		y.wrote(s)
	}
	admitted, looked := 0, 0
	for i := 0; s.queue[i].id != nobody && (upTo == 0 || s.queue[i].place <= upTo) && !y.isFull(looked, admitted); {
		t := s.queue[i]
		if !t.reads {
			i++
			continue
		}
		looked++
		if t.unseen {
			y.noteDead(s, t.id)
			y.remove(s, t.id)
			continue
		}
		admitted++
		if !y.keeps(pushIsLast) {
			s.publish(t.id, news{number, phase, idents{}})
			y.wrote(s)
		}
		y.remove(s, t.id)
		y.read(s, t.id, phase)
		if y.keeps(pushIsLast) {
			s.publish(t.id, news{number, phase, idents{}})
			y.wrote(s)
		}
	}
	y.leaveRest(s, upTo, looked)
	if admitted > 0 && upTo == 0 {
		s.notePhase(begin)
	}
	return admitted > 0 || s.admit != 0 && y.keeps(restIsAdmitted)
}

// isFull reports whether this execution may admit no more readers.
func (y *system) isFull(looked, admitted int) bool {
	return y.maxAdmitted > 0 && looked == y.maxAdmitted || !y.keeps(allAtOnce) && admitted == 1
}

// leaveRest records up to which place the next execution admits readers (rule 9).
func (y *system) leaveRest(s *state, upTo place, looked int) {
	s.admit = 0
	if y.maxAdmitted == 0 || looked < y.maxAdmitted {
		return
	}
	first, last := place(0), place(0)
	for _, t := range s.queue {
		if t.id != nobody && t.reads {
			if first == 0 {
				first = t.place
			}
			last = t.place
		}
	}
	if upTo != 0 {
		last = upTo
	}
	if first != 0 && first <= last {
		s.admit = last
	}
}

// enqueue gives c a ticket at its kept place, at the head if it replaces a lost ticket, and otherwise behind all tickets and
// kept places.
func (s *state) enqueue(c command) {
	t := ticket{id: c.id, place: s.newPlace(), reads: c.reads, keeps: c.keeps, batches: c.batches}
	switch {
	case c.lost:
		s.eachPlace(func(p *place) { *p++ })
		s.served <<= 1
		t.place = 1
	case c.keeps && s.kept != 0:
		t.place = s.kept
		if s.served&(1<<t.place) != 0 {
			s.wrongs |= usedTwice
		}
	}
	if c.keeps {
		s.kept = t.place
	}
	i := slices.IndexFunc(s.queue[:], func(o ticket) bool {
		return o.id == nobody || o.place > t.place || o.place == t.place && c.front
	})
	copy(s.queue[i+1:], s.queue[i:])
	s.queue[i] = t
	s.noteArrival(i)
}

// eachPlace calls f with each place except 0.
func (s *state) eachPlace(f func(*place)) {
	each := func(p *place) {
		if *p != 0 {
			f(p)
		}
	}
	for i := range s.queue {
		each(&s.queue[i].place)
	}
	for i := range s.process {
		each(&s.process[i].stood)
		each(&s.process[i].since)
	}
	for i := range s.commands {
		each(&s.commands[i].stood)
		each(&s.commands[i].since)
	}
	each(&s.kept)
	each(&s.stood)
	each(&s.admit)
}

// lastPlace returns the highest place of all.
func (s *state) lastPlace() (p place) {
	s.eachPlace(func(o *place) { p = max(p, *o) })
	return p
}

// newPlace returns a place behind all others.
func (s *state) newPlace() place {
	p := s.lastPlace() + 1
	s.served &^= 1 << p
	return p
}
