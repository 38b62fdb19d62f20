package permits

import "github.com/lockmw/go/internal/test/states"

// moves returns everything that can happen next.
func (y *system) moves(s *state) []states.Move[state] {
	steps := states.From(s)
	for i := range y.processes {
		y.processMoves(s, i, steps.By(i))
	}
	add := steps.By(states.Nobody)
	if s.late.kind != nothing {
		kind, id := s.late.kind, s.late.id
		add("a late copy runs", func(s *state) {
			s.late.kind, s.late.id = nothing, 0
			r := run{y: y, s: s, by: owner(id), left: uncut}
			r.do(kind, id)
			r.finish()
		})
	}
	if s.lock > 0 {
		add("a lock is requested", func(s *state) {
			s.lock--
			if s.hash {
				return
			}
			if s.length > 0 {
				s.wrong = "a lock while a call waits for a permit"
			}
			s.locked = s.now + lease
		})
	}
	if s.now < y.end {
		add("time passes", func(s *state) {
			s.now++
			if s.ttl != 0 && s.now >= s.ttl {
				s.removeHash()
			}
		})
	}
	return steps.All
}

// do runs a command whose answer is ignored.
func (r *run) do(kind command, id int8) {
	switch kind {
	case anAcquire:
		r.acquire(id)
	case aRelease:
		r.release(id)
	case aCancel:
		r.cancel(id)
	}
}

// scripted adds executions of a script: complete, cut off after each of its writes, and with a later copy.
func (y *system) scripted(s *state, by int, kind command, id int8, add func(string, func(*state)), name string, change func(*run)) {
	whole := func(s *state) {
		r := run{y: y, s: s, by: by, left: uncut}
		change(&r)
		r.finish()
	}
	add(name, whole)
	if s.copies > 0 && kind != nothing {
		add(name+", and again later", func(s *state) {
			s.copies--
			s.late.kind, s.late.id = kind, id
			whole(s)
		})
	}
	if s.cuts > 0 {
		for after := 1; after < 6; after++ {
			add(name+", and is cut off", func(s *state) {
				s.cuts--
				r := run{y: y, s: s, by: by, left: after}
				change(&r)
			})
		}
	}
}

// processMoves adds everything that a process can do, and what can happen to its messages.
func (y *system) processMoves(s *state, i int, add func(string, func(*state))) {
	p := s.proc[i]
	id := s.id(i)
	for c := range int8(2 * most) {
		if p.cancel&(1<<c) != 0 {
			y.scripted(s, i, aCancel, c, add, "has its cancel executed", func(r *run) {
				if r.left == uncut {
					r.s.proc[i].cancel &^= 1 << c
				}
				r.cancel(c)
			})
		}
	}
	switch p.phase {
	case idle:
		if p.attempt == 0 || i == 0 && p.attempt < y.attempts {
			add("sends an acquire", func(s *state) {
				cancel := s.proc[i].cancel
				s.proc[i] = process{phase: asks, attempt: p.attempt + 1, sent: s.now, cancel: cancel}
			})
		}
	case asks:
		if p.answer.outcome == none {
			y.scripted(s, i, anAcquire, id, add, "has its acquire executed", func(r *run) { r.s.proc[i].answer = r.whole(r.acquire(id)) })
		} else {
			add("receives the answer", func(s *state) { y.use(s, i, p.answer, p.sent) })
		}
		y.quitMove(s, i, add)
	case queued:
		y.scripted(s, i, nothing, id, add, "polls", func(r *run) {
			a := r.whole(r.poll(id))
			if r.left > 0 && a.outcome == none { // the ticket was lost: the call queues again
				r.s.proc[i].phase, r.s.proc[i].sent, r.s.proc[i].answer = asks, r.s.now, answer{}
				return
			}
			y.use(r.s, i, a, r.s.now)
		})
		if p.push.outcome == granted {
			add("receives the message", func(s *state) {
				s.proc[i].push = answer{}
				fresh := p.push.token > p.stamp || !y.keeps(stampIsCompared)
				inTime := s.now < p.acceptBy || !y.keeps(windowIsChecked)
				if fresh && inTime {
					by := p.acceptBy
					if !y.keeps(windowIsChecked) {
						by = s.now + window
					}
					s.begin(i, p.push, by)
				}
			})
		}
		y.quitMove(s, i, add)
	case holds:
		y.holdMoves(s, i, add)
	}
}

// whole returns the answer, or none if the execution was cut off.
func (r *run) whole(a answer) answer {
	if r.left == 0 {
		return answer{}
	}
	return a
}

// holdMoves adds everything that the holder of a permit can do.
func (y *system) holdMoves(s *state, i int, add func(string, func(*state))) {
	p, id := s.proc[i], s.id(i)
	if s.now < p.deadline {
		y.scripted(s, i, aRelease, id, add, "releases", func(r *run) {
			q := &r.s.proc[i]
			if r.left < uncut { // the outcome is unknown
				q.cancel |= 1 << id
			}
			q.phase, q.renewal = idle, 0
			r.release(id)
		})
		if p.renewal == 0 {
			add("sends a renewal", func(s *state) { s.proc[i].renewal = s.now + 1 })
		}
	} else {
		add("has lost its hold", func(s *state) { y.giveUp(s, i) })
	}
	if p.renewal != 0 {
		y.scripted(s, i, nothing, id, add, "has its renewal executed", func(r *run) {
			s, q := r.s, &r.s.proc[i]
			q.renewal = 0
			held := r.renew(id)
			switch {
			case r.left == 0:
			case held && (s.now < q.deadline || !y.keeps(lapsedIsOver)):
				q.deadline = max(q.deadline, y.deadline(s, p.renewal-1))
			case !held:
				y.giveUp(s, i)
			}
		})
	}
}

func (y *system) quitMove(s *state, i int, add func(string, func(*state))) {
	if s.quits > 0 {
		add("gives up", func(s *state) {
			s.quits--
			if p := s.proc[i]; p.phase == asks && p.answer.outcome == none && s.late.kind == nothing {
				s.late.kind, s.late.id = anAcquire, s.id(i) // which is still in flight
			}
			y.giveUp(s, i)
		})
	}
}

// giveUp ends a call, or a hold.
func (y *system) giveUp(s *state, i int) {
	id := s.id(i)
	p := &s.proc[i]
	cancel := p.cancel
	if y.keeps(endIsUndone) {
		cancel |= 1 << id
	}
	*p = process{attempt: p.attempt, cancel: cancel}
}

// deadline returns the end of a hold by a command that was sent then.
func (y *system) deadline(s *state, sent int8) int8 {
	if y.keeps(deadlineFirst) {
		return sent + lease
	}
	return s.now + lease
}

// use handles the answer to a command that was sent then.
func (y *system) use(s *state, i int, a answer, sent int8) {
	p := &s.proc[i]
	switch a.outcome {
	case granted:
		if by := y.deadline(s, sent); s.now < by {
			s.begin(i, a, by)
			return
		}
		p.phase, p.acceptBy = queued, 0 // a poll finds whether the permit is still there
	case waits:
		p.phase, p.stamp, p.acceptBy = queued, a.token, sent+window
	}
	p.answer = answer{}
}

// begin starts the work of a process.
func (s *state) begin(i int, a answer, deadline int8) {
	p := &s.proc[i]
	p.phase, p.deadline, p.slots, p.answer, p.push, p.stamp, p.acceptBy = holds, deadline, a.slots, answer{}, answer{}, 0, 0
}
