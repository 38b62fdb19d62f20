package protocol

import "slices"

// arrivals is what is on its way and is awaited by no process.
func (e *expander) arrivals() {
	for j, c := range e.from.commands {
		switch {
		case c.verb == noVerb:
		case c.stray && c.verb == acquire:
			e.acquires(c, func(s *state, c command) {
				s.removeCommand(j)
				e.runAcquire(s, c)
			})
		case c.stray:
			e.can(move{text: "a late copy of " + verbs[c.verb] + " runs", id: c.id, kind: chance}, func(s *state) {
				s.removeCommand(j)
				e.runStray(s, c)
			})
		default:
			e.can(move{text: "cancel runs", id: c.id}, func(s *state) {
				s.removeCommand(j)
				e.runCancel(s, c)
			})
			e.cutOff(move{text: "cancel runs", id: c.id}, func(s *state) { e.runCancel(s, c) })
		}
		if c.verb == cancel && !c.stray && e.from.faults.replays > 0 {
			e.can(move{text: "cancel is written again", id: c.id, kind: fault}, func(s *state) {
				s.faults.replays--
				e.goesAstray(s, c)
			})
		}
	}
	for j, n := range e.from.pushes {
		if n.id != nobody {
			e.can(move{text: "push arrives", id: n.id, kind: chance}, func(s *state) {
				s.removePush(j)
				e.arrived(s, n)
			})
		}
	}
	if e.from.faults.forgeries > 0 {
		e.forgeries()
	}
}

// forgeries is what a client may publish that hears all messages (rule 27): each of them again, which changes nothing at the
// server, and made-up ones.
func (e *expander) forgeries() {
	forge := func(what string, n push) {
		e.can(move{text: what, id: n.id, kind: fault}, func(s *state) {
			s.faults.forgeries--
			e.arrived(s, n)
		})
	}
	above := news{number: e.from.counter + 1, token: e.from.counter + 1}
	for _, n := range e.from.pushes {
		if n.id == nobody {
			continue
		}
		forge("push arrives, and will again", n)
		if !e.keeps(proofIsWhole) {
			forge("push arrives with other numbers", push{n.id, above})
		}
	}
	for i := range e.processes() {
		if p := &e.from.process[i]; p.phase == queued && !e.keeps(pushIsProven) {
			forge("push is made up", push{p.id, above})
		}
	}
}

var verbs = map[verb]string{release: "release", downgrade: "downgrade", renew: "renewal", cancel: "cancel"}

func (e *expander) runStray(s *state, c command) {
	switch c.verb {
	case release:
		e.runRelease(s, c)
	case downgrade:
		e.runDowngrade(s, c.id)
	case renew:
		e.runRenew(s, c.id)
	case cancel:
		e.runCancel(s, c)
	}
}

// isAttended reports whether a live process keeps the id's lease or ticket alive.
func (s *state) isAttended(id ident) bool {
	p := s.user(id)
	return p != nil && p.phase != dead && p.phase != lapsed
}

// server is what time changes on the server.
func (e *expander) server() {
	e.expiry(e.from.holder)
	e.losses(e.from.holder)
	for _, id := range e.from.readers {
		e.expiry(id)
	}
	for i := range e.processes() {
		e.liveness(i)
	}
	if e.from.kept != 0 {
		e.can(move{text: "kept place expires", id: nobody, kind: chance}, func(s *state) { s.kept = 0 })
	}
	if first := e.from.queue[0].id; first != nobody && e.from.holder == nobody && e.keeps(settles) {
		e.can(move{text: "comes to the head: a late poll runs", id: first, kind: chance}, func(s *state) {
			e.settleAndJudge(s, s.takeEnded())
		})
	}
}

// liveness is how the server sees that a process lives which has tickets. One that waits beats, unless it is too slow. If it does
// not wait, tickets that it has forgotten die in time.
func (e *expander) liveness(i int) {
	p := &e.from.process[i]
	beats := p.phase != dead && slices.ContainsFunc(e.from.queue[:], func(t ticket) bool { return t.id.process() == i && e.from.user(t.id) != nil })
	if e.from.hasTicket(i, false) {
		unseen := func(s *state) { s.see(e.system, newIdent(i, 0), false) }
		if m := (move{text: "was not seen for long", who: i}); beats && e.keeps(waitersBeat) {
			e.delay(m, unseen)
		} else {
			e.can(m, unseen)
		}
	}
	if beats && e.keeps(waitersBeat) && e.from.hasTicket(i, true) {
		e.can(move{text: "beats", who: i}, func(s *state) { s.see(e.system, newIdent(i, 0), true) })
	}
}

// expiry is the end of a hold's lease or accept window. It cannot come before the process has seen its
// deadline pass. With the last reader either the key expires, or a script finds that all readers have.
func (e *expander) expiry(id ident) {
	p := e.from.user(id)
	if id == nobody || e.from.waiting || p != nil && p.phase == holding && e.keeps(deadlineIsFirst) {
		return
	}
	e.elapse(move{text: "expires", id: id}, func(s *state) { s.expire(id) })
	if e.from.readers[0] == id && e.from.readers[1] == nobody {
		e.elapse(move{text: "expires, which is seen", id: id}, func(s *state) { s.ended = s.expire(id) })
	}
}

// elapse is a move that happens unless a process prevents it in time. It is a fault if a live process should
// have.
func (e *expander) elapse(m move, f func(s *state)) {
	if !e.from.isAttended(m.id) {
		e.can(m, f)
	} else {
		e.delay(m, f)
	}
}

// delay is a move that happens because a live process is too slow.
func (e *expander) delay(m move, f func(s *state)) {
	if e.from.faults.delays > 0 {
		m.kind = fault
		e.can(m, func(s *state) {
			s.faults.delays--
			f(s)
		})
	}
}
