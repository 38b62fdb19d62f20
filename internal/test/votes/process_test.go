package votes

// processMoves adds everything that a process can do, and what can happen to its messages.
func (y *system) processMoves(s *state, i int, add func(string, func(*state))) {
	p := s.proc[i]
	switch p.phase {
	case idle:
		if p.bid == 0 || i == 0 && p.bid < y.bids {
			add("asks all nodes", func(s *state) {
				q := &s.proc[i]
				*q = process{phase: asks, bid: p.bid + 1}
				for n := range q.votes {
					q.votes[n] = vote{outcome: asked, sent: s.now}
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
		count := y.answerMoves(s, i, add) // of late nodes
		for n, v := range p.votes {
			if v.outcome == granted && v.knows < p.token && y.mayRaise(s, n, p.token) {
				add("raises a counter", func(s *state) { // of a node that may have lost the hold
					d := &s.node[n]
					d.counter = max(d.counter, p.token)
					s.proc[i].votes[n].knows = d.counter
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
		for n := range p.votes {
			if n != first && p.votes[n].outcome != freed {
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

// answerMoves adds what can happen to the votes of a bid, and returns how many nodes count.
func (y *system) answerMoves(s *state, i int, add func(string, func(*state))) (count int8) {
	p := s.proc[i]
	id := y.id(i, p.bid)
	for n, v := range p.votes {
		switch v.outcome {
		case asked, left:
			if !s.answers(n) {
				continue
			}
			if v.outcome == asked && y.together && i == 0 {
				y.batchMoves(s, i, n, add)
				continue
			}
			add("has an acquire executed", func(s *state) {
				w := &s.proc[i].votes[n]
				switch {
				case y.grant(s, n, id):
					w.outcome, w.token, w.knows = answers, s.node[n].counter, s.node[n].counter
					if !y.slow || i > 0 {
						w.outcome, w.deadline = granted, s.now+lease
					}
				case y.queues && n == first && s.node[n].holder != 0 && s.node[n].waiter == 0:
					s.node[n].waiter, w.outcome = id, queued
				default:
					w.outcome = refused
				}
			})
		case answers:
			add("gets an answer", func(s *state) {
				w := &s.proc[i].votes[n]
				w.outcome, w.deadline = granted, v.sent+lease
				if !y.keeps(fromSending) {
					w.deadline = s.now + lease
				}
			})
		case refused:
			if n != first && p.votes[first].outcome == granted && y.queues {
				add("asks a node again", func(s *state) { s.proc[i].votes[n] = vote{outcome: asked, sent: s.now} })
			}
		case granted:
			if s.now < v.deadline {
				count++
			}
		}
	}
	return count
}

// choose chooses the token of a process.
func (y *system) choose(s *state, i int) {
	p := &s.proc[i]
	p.phase, p.token = raises, y.leastToken(s, p)
}

// leastToken returns the k-th smallest of the tokens that a process was given: k nodes that count have given no greater one.
func (y *system) leastToken(s *state, p *process) int8 {
	given := [nodes]int8{127, 127, 127}
	for n, v := range p.votes {
		if v.outcome == granted && s.now < v.deadline {
			given[n] = v.token
		}
	}
	if !y.keeps(kthToken) {
		return min(given[0], given[1], given[2])
	}
	return nth2(given, int8(nodes)+1-y.quorum())
}

// knowing returns how many nodes that count know the token.
func (y *system) knowing(s *state, p *process) (n int8) {
	for _, v := range p.votes {
		if v.outcome == granted && v.knows >= p.token && (s.now < v.deadline || !y.keeps(checkedAfter)) {
			n++
		}
	}
	return n
}

// begin starts the work of a process.
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

// lastKnown returns the greatest token that k nodes know and count for.
func (y *system) lastKnown(s *state, p *process) int8 {
	var known [nodes]int8
	for n, v := range p.votes {
		if v.outcome == granted && s.now < v.deadline {
			known[n] = v.knows
		}
	}
	return nth2(known, y.quorum())
}

// use makes a process work with a token.
func (s *state) use(i int, token int8) {
	s.proc[i].token = token
	s.back = s.back || token <= s.last
	s.last = max(s.last, token)
}

// release frees a node.
func (y *system) release(s *state, i, n int) {
	p := &s.proc[i]
	if v := &p.votes[n]; v.outcome == asked || v.outcome == left {
		s.node[n].late |= 1 << y.id(i, p.bid)
	}
	p.votes[n] = vote{outcome: freed}
	y.forget(s, n, y.id(i, p.bid))
}

// giveUp ends a bid at all nodes, some of them late.
func (y *system) giveUp(s *state, i int) {
	p := &s.proc[i]
	id := y.id(i, p.bid)
	for n, v := range p.votes {
		switch {
		case y.late && n == far && (v.outcome == asked || v.outcome == left):
			s.node[n].late |= 1 << id
			s.node[n].cancel |= 1 << id
		case y.late && n == far:
			s.node[n].cancel |= 1 << id
		default:
			y.forget(s, n, id)
		}
	}
	*p = process{bid: p.bid}
}
