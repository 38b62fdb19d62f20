package votes

import "github.com/lockmw/go/internal/test/states"

// moves returns everything that can happen next.
func (y *system) moves(s *state) []states.Move[state] {
	steps := states.From(s)
	for i := range s.proc {
		y.processMoves(s, i, steps.By(i))
	}
	for n := range s.node {
		y.nodeMoves(s, n, steps.By(states.Nobody))
	}
	if y.clocks && !s.gone && s.forgets == 0 { // a lost node matters only then
		steps.By(states.Nobody)("A is gone", func(s *state) { s.gone = true })
	}
	if s.now < y.end {
		steps.By(states.Nobody)("time passes", func(s *state) {
			s.now++
			for n := range s.node {
				if d := &s.node[n]; s.now >= d.until {
					d.holder, d.until = 0, 0
				}
			}
		})
	}
	return steps.All
}

// nodeMoves adds what can happen to a node, and the late messages to it.
func (y *system) nodeMoves(s *state, n int, add func(string, func(*state))) {
	name := string(rune('A' + n))
	d := s.node[n]
	for id := int8(1); id < 8; id++ {
		if d.late&(1<<id) != 0 {
			add("a late acquire arrives at "+name, func(s *state) {
				s.node[n].late &^= 1 << id
				y.grant(s, n, id)
			})
		}
		if d.cancel&(1<<id) != 0 {
			add("a cancel arrives at "+name, func(s *state) {
				s.node[n].cancel &^= 1 << id
				y.forget(s, n, id)
			})
		}
	}
	if s.forgets > 0 && (n == far || n == first && y.both) && d.since == never {
		add(name+" forgets", func(s *state) {
			s.forgets--
			s.node[n] = node{since: s.now, late: d.late, cancel: d.cancel}
		})
	}
	if d.since != never && (s.now-d.since >= lease || !y.keeps(forgottenWait)) {
		add(name+" is trusted", func(s *state) {
			s.node[n].since = never
			y.raiseTrusted(s, n)
		})
	}
}

// raiseTrusted raises a node that may have lost tokens to the greatest of N - k + 1 others, which are both of them. If one of
// them is gone or has lost its tokens, the node's clock bounds the tokens that the node can have had when it lost its data.
func (y *system) raiseTrusted(s *state, n int) {
	d, intact := &s.node[n], true
	if !y.keeps(forgottenRaised) {
		return
	}
	for i, other := range s.node {
		intact = intact && s.answers(i) && (other.since == never || !y.keeps(intactOthers))
		if s.answers(i) {
			d.counter = max(d.counter, other.counter)
		}
	}
	if !intact && y.keeps(clockRaised) {
		d.counter = max(d.counter, y.clock(s)-lease*unit+maxAhead)
	}
}

// grant runs an acquire that does not queue, and reports whether it was granted.
func (y *system) grant(s *state, n int, id int8) bool {
	d := &s.node[n]
	switch {
	case d.since != never, d.done&(1<<id) != 0, d.waiter != 0 && d.holder != id, d.holder != 0 && d.holder != id:
		return false
	case d.holder == 0:
		d.holder = id
		d.counter = max(d.counter+1, y.clock(s))
	}
	d.until = s.now + lease
	return true
}

// forget runs a cancel or a release, and wakes the waiter.
func (y *system) forget(s *state, n int, id int8) {
	d := &s.node[n]
	if !s.answers(n) {
		return
	}
	if y.keeps(newIDs) {
		d.done |= 1 << id
	}
	if d.waiter == id {
		d.waiter = 0
	}
	if d.holder != id {
		return
	}
	d.holder, d.until = 0, 0
	if d.waiter == 0 || d.since != never {
		return
	}
	d.holder, d.waiter, d.until = d.waiter, 0, s.now+lease
	d.counter++
	for i := range s.proc {
		p := &s.proc[i]
		if y.id(i, p.bid) != d.holder || p.phase != asks {
			continue
		}
		p.votes[n] = vote{outcome: granted, sent: s.now, token: d.counter, knows: d.counter, deadline: s.now + lease}
		for other := range s.node { // which it asks immediately
			if other != n && s.node[other].holder == id && s.proc[1-i].phase == releases {
				p.missed = true
			}
		}
	}
}
