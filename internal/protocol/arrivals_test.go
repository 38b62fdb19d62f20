package protocol

// arrivals is what is on its way and no process awaits.
func (e *expander) arrivals() {
	for j, c := range e.from.commands {
		switch {
		case c.verb == noVerb:
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
}

var verbs = map[verb]string{acquire: "acquire", release: "release", cancel: "cancel"}

func (e *expander) runStray(s *state, c command) {
	switch c.verb {
	case acquire:
		e.runAcquire(s, c)
	case release:
		e.runRelease(s, c)
	case cancel:
		e.runCancel(s, c)
	}
}

// isAttended says whether a live process keeps the id's lease or ticket alive.
func (s *state) isAttended(id ident) bool {
	p := &s.process[id.process()]
	return p.phase != dead && p.phase != lapsed && p.id == id
}

// server is what the server does by itself, as time goes by.
func (e *expander) server() {
	h := e.from.holder
	if h != nobody && e.mayExpire(h) {
		e.elapse(move{text: "expires", id: h}, func(s *state) { s.expire() })
	}
	for j, t := range e.from.queue {
		if t.id != nobody && !t.unseen {
			e.elapse(move{text: "was not seen for three polls", id: t.id}, func(s *state) { s.queue[j].unseen = true })
		}
	}
	if h == nobody && e.from.queue[0].id != nobody && e.keeps(settles) {
		e.can(move{text: "comes to the head: a late poll runs", id: e.from.queue[0].id, kind: chance}, func(s *state) { e.settle(s) })
	}
}

// mayExpire says whether the server may end a hold, for which the process must have seen its deadline
// pass.
func (e *expander) mayExpire(h ident) bool {
	p := &e.from.process[h.process()]
	return (p.id != h || p.phase != holding || !e.keeps(deadlineIsFirst)) && !e.from.waiting
}

// elapse is what happens if nobody does anything about it for long enough; it is a fault if somebody
// should have.
func (e *expander) elapse(m move, f func(s *state)) {
	if !e.from.isAttended(m.id) {
		e.can(m, f)
	} else if e.from.faults.delays > 0 {
		m.kind = fault
		e.can(m, func(s *state) {
			s.faults.delays--
			f(s)
		})
	}
}
