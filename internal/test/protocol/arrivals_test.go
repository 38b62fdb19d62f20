package protocol

import "slices"

// arrivals adds the arrival of messages and commands that no process waits for.
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

// forgeries adds what a client that reads all messages may publish (rule 27): repetitions, which change nothing on the server,
// and forged messages.
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

// server adds what time changes on the server.
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
	if first := e.from.queue[0].id; first != nobody && e.from.holder == nobody && e.keeps(pollsGrant) {
		e.can(move{text: "is granted by a late poll", id: first, kind: chance}, func(s *state) {
			e.grantNextAndJudge(s, s.takeEnded())
		})
	}
}

// liveness adds when the server considers a process with tickets dead or alive. A waiting process beats, unless it is too slow.
// If it does not wait, tickets that it has forgotten die eventually.
func (e *expander) liveness(i int) {
	p := &e.from.process[i]
	beats := p.phase != dead && slices.ContainsFunc(e.from.queue[:], func(t ticket) bool { return t.id.process() == i && e.from.user(t.id) != nil })
	if e.from.hasTicket(i, false) {
		unseen := func(s *state) { s.see(e.system, newIdent(i, 0), false) }
		if m := (move{text: "counts as dead", who: i}); beats && e.keeps(waitersBeat) {
			e.delay(m, unseen)
		} else {
			e.can(m, unseen)
		}
	}
	if beats && e.keeps(waitersBeat) && e.from.hasTicket(i, true) {
		e.can(move{text: "beats", who: i}, func(s *state) { s.see(e.system, newIdent(i, 0), true) })
	}
}

// expiry adds the end of a hold's lease or accept window. The process must have seen its deadline pass before that. After the
// last reader, either the key expires, or a script finds that all readers have expired.
func (e *expander) expiry(id ident) {
	p := e.from.user(id)
	if id == nobody || e.from.waiting || p != nil && p.phase == holding && e.keeps(deadlineIsFirst) {
		return
	}
	e.elapse(move{text: "expires", id: id}, func(s *state) { s.expire(id) })
	if e.from.readers[0] == id && e.from.readers[1] == nobody {
		e.elapse(move{text: "expires, and a script notices", id: id}, func(s *state) { s.ended = s.expire(id) })
	}
}

// elapse adds a move that happens unless a process prevents it in time. It is a fault if a live process should have prevented
// it.
func (e *expander) elapse(m move, f func(s *state)) {
	if !e.from.isAttended(m.id) {
		e.can(m, f)
	} else {
		e.delay(m, f)
	}
}

// delay adds a move that happens because a live process is too slow.
func (e *expander) delay(m move, f func(s *state)) {
	if e.from.faults.delays > 0 {
		m.kind = fault
		e.can(m, func(s *state) {
			s.faults.delays--
			f(s)
		})
	}
}
