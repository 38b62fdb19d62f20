package quarantine

import "github.com/lockmw/go/internal/test/states"

// moves returns what can happen next.
func (y *system) moves(s *state) []states.Move[state] {
	steps := states.From(s)
	add := steps.By(states.Nobody)
	for i := range y.processes {
		y.processMoves(s, i, steps.By(i))
	}
	if s.saved != s.data {
		add("the data are saved", func(s *state) { s.saved = s.data })
	}
	if s.losses > 0 {
		add("the server is another one", func(s *state) {
			s.losses--
			s.id++
			s.since, s.data = -1, s.saved
		})
	}
	if s.now < y.end {
		add("time goes on", func(s *state) {
			s.now++
			for _, d := range []*data{&s.data, &s.saved} {
				if s.now >= d.until {
					d.holder, d.until = 0, 0
				}
			}
		})
	}
	return steps.All
}

// processMoves adds what a process can do, and what can become of what it has sent.
func (y *system) processMoves(s *state, i int, add func(string, func(*state))) {
	p := s.proc[i]
	if p.trusts != s.id {
		add("examines the server", func(s *state) { y.examine(s, i) })
	}
	switch p.phase {
	case idle:
		if s.now < p.deadline {
			add("renews its hold", func(s *state) { y.renew(s, i) })
			add("releases", func(s *state) { y.release(s, i) })
			return
		}
		if s.losses < y.losses && s.data.holder == int8(i+1) {
			add("repeats a release", func(s *state) { y.release(s, i) }) // as the server is another one
		}
		if y.keeps(runsCompare) || p.trusts == s.id { // else a command before it has compared
			add("sends an acquire", func(s *state) {
				s.proc[i].phase, s.proc[i].carries, s.proc[i].sent, s.proc[i].deadline = asks, p.trusts, s.now, 0
			})
		}
	case asks:
		add("has its acquire run", func(s *state) { y.acquire(s, i) })
	case queued:
		add("polls", func(s *state) { y.poll(s, i) })
		add("gives up", func(s *state) { s.giveUp(i) })
	case pushed:
		add("gets the message", func(s *state) { s.begin(i, p.sent+lease) })
		add("gives up", func(s *state) { s.giveUp(i) })
	}
}

// examine has a process find out whether the server may grant.
func (y *system) examine(s *state, i int) {
	if s.since < 0 {
		s.since = s.now
	}
	if s.now-s.since >= y.quarantine() {
		s.proc[i].trusts = s.id
	}
}

// acquire runs acquire.lua for a process.
func (y *system) acquire(s *state, i int) {
	me, p := int8(i+1), &s.proc[i]
	switch {
	case y.keeps(runsCompare) && p.carries != s.id:
		p.phase = idle
	case s.data.holder == 0 && s.data.waiter == 0 || s.data.holder == me:
		s.data.holder, s.data.until = me, s.now+lease
		s.begin(i, p.sent+lease)
	default:
		s.data.waiter = me
		p.phase = queued
	}
}

// poll runs poll.lua for a process.
func (y *system) poll(s *state, i int) {
	me := int8(i + 1)
	gated := y.keeps(pollsAreGated) && s.proc[i].trusts != s.id
	switch {
	case gated:
	case s.data.holder == me:
		s.data.until = s.now + lease
		s.begin(i, s.now+lease)
	case s.data.holder == 0 && s.data.waiter == me:
		s.data = data{holder: me, until: s.now + lease}
		s.begin(i, s.now+lease)
	case s.data.waiter != me: // the server has lost the ticket
		s.proc[i].phase = idle
	}
}

// renew runs renew.lua for a process.
func (y *system) renew(s *state, i int) {
	if s.data.holder != int8(i+1) {
		s.proc[i].deadline = 0
		return
	}
	s.data.until = s.now + lease
	s.proc[i].deadline = s.now + lease
}

// release runs release.lua for a process.
func (y *system) release(s *state, i int) {
	s.proc[i].deadline = 0
	if s.data.holder != int8(i+1) {
		return
	}
	next := s.data.waiter
	if next == 0 || y.keeps(releasesAreGated) && s.proc[i].trusts != s.id {
		s.data.holder, s.data.until = 0, 0
		return
	}
	s.data = data{holder: next, until: s.now + lease}
	if p := &s.proc[next-1]; p.phase == queued {
		p.phase, p.sent = pushed, s.now
	}
}

// giveUp has the server forget what a process wants.
func (s *state) giveUp(i int) {
	me := int8(i + 1)
	if s.data.holder == me {
		s.data.holder, s.data.until = 0, 0
	}
	if s.data.waiter == me {
		s.data.waiter = 0
	}
	s.proc[i].phase = idle
}

// begin has a process work.
func (s *state) begin(i int, deadline int8) { s.proc[i].phase, s.proc[i].deadline = idle, deadline }
