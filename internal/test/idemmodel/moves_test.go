package idemmodel

import "github.com/lockmw/go/internal/test/states"

type add func(name string, change func(*state))

// moves returns what can happen next.
func (y *system) moves(s *state) []states.Move[state] {
	steps := states.From(s)
	for i := range y.policy {
		y.processMoves(s, i, steps.By(i))
	}
	y.lateMoves(s, steps.By(states.Nobody))
	if s.now < y.end {
		steps.By(states.Nobody)("time passes", func(s *state) { y.step(s, -1) })
		for i := range y.policy {
			if s.faults.pauses > 0 && s.holder == s.id(i)+1 && s.proc[i].phase != dead {
				steps.By(i)("stands still", func(s *state) {
					s.faults.pauses--
					y.step(s, i)
				})
			}
		}
	}
	return steps.All
}

// step lets time go on. A live process renews its lease, unless it stands still, up to the longest hold.
func (y *system) step(s *state, paused int) {
	s.now++
	if s.holder != 0 && s.now >= s.until {
		id := s.holder - 1
		i := owner(runOf(id))
		p := &s.proc[i]
		uses := s.id(i) == id && p.phase >= holds && p.phase <= finishes && !p.lost
		switch {
		case uses && i != paused && s.now-s.since <= maxHold:
			s.until = s.now + lease
		case uses:
			s.holder = 0
			y.lose(s, i)
		default:
			s.holder = 0
		}
	}
	r := &s.record
	if r.until == 0 || s.now < r.until {
		if r.until != 0 && s.now >= s.lifeEnds {
			s.fault("a record lasts too long")
		}
		return
	}
	if i := owner(abs(max(r.run, 1))); r.state == open && r.run == s.run(i) && s.proc[i].phase == works && !s.proc[i].lost {
		s.fault("a record expires before its run")
	}
	s.record = record{}
	s.unknown, s.silent, s.answered, s.last, s.attempts, s.lifeEnds, s.found = 0, 0, 0, 0, 0, 0, false
}

// lateMoves adds what becomes of commands whose answers nobody waits for.
func (y *system) lateMoves(s *state, add add) {
	for id := range int8(2 * most * perCall) {
		if s.lateAcquires&bit[uint16](id) != 0 {
			add("a late acquire arrives", func(s *state) {
				s.lateAcquires &^= bit[uint16](id)
				y.acquire(s, id)
			})
		}
		if s.lateBegins&bit[uint16](id) != 0 {
			add("a late begin arrives", func(s *state) {
				s.lateBegins &^= bit[uint16](id)
				y.begin(s, id)
			})
		}
		if s.cancels&bit[uint16](id) != 0 {
			add("a cancel arrives", func(s *state) {
				y.cancel(s, id)
				s.cancels &^= bit[uint16](id)
				s.tokens[id] = 0
			})
			if s.faults.losses > 0 {
				add("a cancel arrives, and is not answered", func(s *state) {
					s.faults.losses--
					y.cancel(s, id)
				})
			}
		}
	}
	for run, how := range s.lateEnds {
		if how != noEnd {
			add("a late end arrives", func(s *state) {
				s.lateEnds[run] = noEnd
				y.endRecord(s, int8(run), how, -1, false)
			})
		}
	}
}

// executes adds the execution of a command, with an answer, a lost answer, and a copy that comes later. The end of a void run
// carries the id.
func (y *system) executes(s *state, i int, add add, name string, run func(*state) answer, late func(*state)) {
	whole := func(s *state) { s.proc[i].answer = run(s) }
	add(name, whole)
	if s.faults.losses > 0 {
		add(name+", and is not answered", func(s *state) {
			s.faults.losses--
			run(s)
		})
	}
	if s.faults.copies > 0 && late != nil {
		add(name+", and once more later", func(s *state) {
			s.faults.copies--
			late(s)
			whole(s)
		})
	}
}

// processMoves adds what a process can do, and what can become of what it has sent.
func (y *system) processMoves(s *state, i int, add add) {
	p, id, run := s.proc[i], s.id(i), s.run(i)
	answered := p.answer.outcome != none
	switch p.phase {
	case idle, over:
		if p.call < 1 || i == 0 && p.call < y.calls {
			add("calls", func(s *state) {
				s.proc[i] = process{phase: asks, call: p.call + 1, sent: s.now}
			})
		}
	case asks:
		if answered {
			add("gets the answer", func(s *state) { y.onAcquired(s, i) })
			break
		}
		y.executes(s, i, add, "has its acquire run", func(s *state) answer { return y.acquire(s, id) },
			func(s *state) { s.lateAcquires |= bit[uint16](id); s.copied |= bit[uint16](id) })
	case waits:
		if s.holder == 0 && s.doneIDs&bit[uint16](id) == 0 {
			add("is granted the lock", func(s *state) {
				s.grant(id)
				s.proc[i].phase = holds
			})
		}
	case holds:
		add("begins", func(s *state) {
			q := &s.proc[i]
			q.phase, q.sent, q.answer = begins, s.now, answer{}
		})
	case begins:
		if answered {
			add("gets the answer", func(s *state) { y.onBegun(s, i) })
			break
		}
		y.executes(s, i, add, "has its begin run", func(s *state) answer { return y.begin(s, id) },
			func(s *state) { s.lateBegins |= bit[uint16](id) })
	case settles:
		y.settleMoves(s, i, add)
	case works:
		y.workMoves(s, i, add)
	case releases:
		add("has its lock released", func(s *state) {
			y.release(s, id)
			s.proc[i].phase = finishes
		})
	case finishes:
		if answered {
			add("gets the answer", func(s *state) { y.onEnded(s, i) })
			break
		}
		y.executes(s, i, add, "has its end run", func(s *state) answer { return y.finish(s, i) },
			func(s *state) { s.lateEnds[run] = p.ending })
	}
	y.faultMoves(s, i, add)
}

// faultMoves adds what can go wrong.
func (y *system) faultMoves(s *state, i int, add add) {
	p := s.proc[i]
	unbegun := p.phase >= asks && p.phase <= settles
	if s.faults.deaths > 0 && p.phase > idle && p.phase < over {
		add("dies", func(s *state) {
			s.faults.deaths--
			y.leavesOnTheWay(s, i)
			s.proc[i].phase = dead
		})
	}
	if s.faults.quits > 0 && unbegun {
		add("gives up", func(s *state) {
			s.faults.quits--
			y.giveUp(s, i)
		})
	}
	if s.faults.reasks > 0 && (p.phase == asks || p.phase == waits) && p.again+1 < perCall {
		add("asks again under another id", func(s *state) {
			s.faults.reasks--
			y.leavesOnTheWay(s, i)
			y.cancels(s, i)
			q := &s.proc[i]
			*q = process{phase: asks, call: q.call, again: q.again + 1, sent: s.now}
		})
	}
	if s.faults.doubts > 0 && p.phase != dead {
		add("has its ended ids ended again", func(s *state) {
			s.faults.doubts--
			y.disown(s, i)
		})
	}
	if s.faults.early > 0 && !p.lost && (p.phase == begins || p.phase == works) && s.holder == s.id(i)+1 {
		add("takes its lock for lost", func(s *state) {
			s.faults.early--
			y.lose(s, i)
		})
	}
}

// leavesOnTheWay leaves the command that a process has sent.
func (y *system) leavesOnTheWay(s *state, i int) {
	p, id := &s.proc[i], s.id(i)
	if p.answer.outcome != none {
		return
	}
	switch p.phase {
	case asks:
		s.lateAcquires |= bit[uint16](id)
	case begins:
		s.lateBegins |= bit[uint16](id)
	case finishes:
		s.lateEnds[s.run(i)] = p.ending
	}
}

// cancels has the id of a process end in its time. Its run becomes void, unless it has begun with the token of the record.
func (y *system) cancels(s *state, i int) {
	id := s.id(i)
	s.cancels |= bit[uint16](id)
	s.tokens[id] = s.proc[i].token
}

// giveUp ends a call whose run has not begun. A hold is released, which makes the run void.
func (y *system) giveUp(s *state, i int) {
	p := &s.proc[i]
	y.leavesOnTheWay(s, i)
	if p.phase >= holds && !p.lost {
		p.phase, p.ending, p.answer = finishes, void, answer{}
		return
	}
	if !p.lost {
		y.cancels(s, i)
	}
	p.phase, p.answer = over, answer{}
}

// lose ends the hold of a process, and a call whose run has not begun.
func (y *system) lose(s *state, i int) {
	p := &s.proc[i]
	y.cancels(s, i)
	p.lost = true
	if p.phase < works {
		y.leavesOnTheWay(s, i)
		p.phase, p.answer = over, answer{}
	}
}
