package votes

// processMoves adds what a process can do, and what can become of what it has sent.
func (y *system) processMoves(s *state, i int, add func(string, func(*state))) {
	p := s.proc[i]
	switch p.phase {
	case idle:
		if p.attempt == 0 || i == 0 && p.attempt < y.attempts {
			add("asks all nodes", func(s *state) {
				q := &s.proc[i]
				*q = process{phase: asks, attempt: p.attempt + 1}
				for n := range q.ballots {
					q.ballots[n] = vote{ballot: asked, sent: s.now}
				}
			})
		}
	case asks:
		if y.answerMoves(s, i, add) >= y.quorum() {
			add("chooses its token", func(s *state) { y.choose(s, i) })
		}
		if y.late {
			add("gives up", func(s *state) { y.giveUp(s, i) })
		}
	case raises:
		count := y.answerMoves(s, i, add) // of nodes that are late
		for n, v := range p.ballots {
			if v.ballot == granted && v.knows < p.token && y.mayRaise(s, n, p.token) {
				add("raises a counter", func(s *state) { // of a node that may have forgotten the hold
					d := &s.node[n]
					d.counter = max(d.counter, p.token)
					s.proc[i].ballots[n].knows = d.counter
				})
			}
		}
		if least := y.leastToken(s, &p); count >= y.quorum() && p.token < least && y.keeps(chosenAgain) {
			add("chooses its token again", func(s *state) { s.proc[i].token = least })
		} else if !y.keeps(raised) || y.knowing(s, &p) >= y.quorum() {
			add("begins to work", func(s *state) { y.begin(s, i) })
		}
	case works:
		if s.now >= y.deadline(&p) {
			add("has lost its hold", func(s *state) { y.giveUp(s, i) })
			return
		}
		if p.token < p.last {
			add("passes the lock on", func(s *state) { s.use(i, p.token+1) })
		}
		add("releases", func(s *state) {
			s.proc[i].phase = releases
			if !y.queues {
				y.giveUp(s, i)
			} else if !y.keeps(firstLast) {
				y.release(s, i, first)
			}
		})
	case releases:
		others := true
		for n := range p.ballots {
			if n != first && p.ballots[n].ballot != freed {
				others = false
				add("has a node freed", func(s *state) { y.release(s, i, n) })
			}
		}
		if others {
			add("has the first node freed", func(s *state) {
				y.release(s, i, first)
				s.proc[i].phase = idle
			})
		}
	}
}

// answerMoves adds what can become of what an attempt has asked for, and returns how many nodes count.
func (y *system) answerMoves(s *state, i int, add func(string, func(*state))) (count int8) {
	p := s.proc[i]
	id := y.id(i, p.attempt)
	for n, v := range p.ballots {
		switch v.ballot {
		case asked, left:
			if !s.answers(n) {
				continue
			}
			if v.ballot == asked && y.together && i == 0 {
				y.batchMoves(s, i, n, add)
				continue
			}
			add("has an acquire run", func(s *state) {
				w := &s.proc[i].ballots[n]
				switch {
				case y.grant(s, n, id):
					w.ballot, w.token, w.knows = answers, s.node[n].counter, s.node[n].counter
					if !y.slow || i > 0 {
						w.ballot, w.deadline = granted, s.now+lease
					}
				case y.queues && n == first && s.node[n].holder != 0 && s.node[n].waiter == 0:
					s.node[n].waiter, w.ballot = id, queued
				default:
					w.ballot = refused
				}
			})
		case answers:
			add("gets an answer", func(s *state) {
				w := &s.proc[i].ballots[n]
				w.ballot, w.deadline = granted, v.sent+lease
				if !y.keeps(fromSending) {
					w.deadline = s.now + lease
				}
			})
		case refused:
			if n != first && p.ballots[first].ballot == granted && y.queues {
				add("asks a node again", func(s *state) { s.proc[i].ballots[n] = vote{ballot: asked, sent: s.now} })
			}
		case granted:
			if s.now < v.deadline {
				count++
			}
		}
	}
	return count
}

// choose has a process choose its token.
func (y *system) choose(s *state, i int) {
	p := &s.proc[i]
	p.phase, p.token = raises, y.leastToken(s, p)
}

// leastToken returns the k-th smallest of the tokens that a process was given, so that k nodes that count have given no greater one.
func (y *system) leastToken(s *state, p *process) int8 {
	given := [nodes]int8{127, 127, 127}
	for n, v := range p.ballots {
		if v.ballot == granted && s.now < v.deadline {
			given[n] = v.token
		}
	}
	if !y.keeps(kthToken) {
		return min(given[0], given[1], given[2])
	}
	return nth2(given, int8(nodes)+1-y.quorum())
}

// knowing returns how many nodes know the token and count.
func (y *system) knowing(s *state, p *process) (n int8) {
	for _, v := range p.ballots {
		if v.ballot == granted && v.knows >= p.token && (s.now < v.deadline || !y.keeps(checkedAfter)) {
			n++
		}
	}
	return n
}

// begin has a process work.
func (y *system) begin(s *state, i int) {
	p := &s.proc[i]
	if y.keeps(checkedAfter) && s.now >= y.deadline(p) {
		y.giveUp(s, i)
		return
	}
	p.phase = works
	if y.together {
		p.last = y.lastKnown(s, p)
	}
	s.use(i, p.token)
}

// lastKnown returns the greatest token that k nodes know which count.
func (y *system) lastKnown(s *state, p *process) int8 {
	var known [nodes]int8
	for n, v := range p.ballots {
		if v.ballot == granted && s.now < v.deadline {
			known[n] = v.knows
		}
	}
	return nth2(known, y.quorum())
}

// use has a process work with a token.
func (s *state) use(i int, token int8) {
	s.proc[i].token = token
	s.back = s.back || token <= s.last
	s.last = max(s.last, token)
}

// release frees a node.
func (y *system) release(s *state, i, n int) {
	p := &s.proc[i]
	if v := &p.ballots[n]; v.ballot == asked || v.ballot == left {
		s.node[n].late |= 1 << y.id(i, p.attempt)
	}
	p.ballots[n] = vote{ballot: freed}
	y.forget(s, n, y.id(i, p.attempt))
}

// giveUp has all nodes forget what a process wants, in their time.
func (y *system) giveUp(s *state, i int) {
	p := &s.proc[i]
	id := y.id(i, p.attempt)
	for n, v := range p.ballots {
		switch {
		case y.late && n == far && (v.ballot == asked || v.ballot == left):
			s.node[n].late |= 1 << id
			s.node[n].cancel |= 1 << id
		case y.late && n == far:
			s.node[n].cancel |= 1 << id
		default:
			y.forget(s, n, id)
		}
	}
	*p = process{attempt: p.attempt}
}
