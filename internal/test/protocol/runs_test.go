package protocol

// Calls of one process whose tickets stand right behind one another are granted the lock as a run (rule 25). The calls
// with the role runs are those of one process: an entry of state.process stands for each. What their process knows of
// the lease goes with it from one to the next.

// alive returns the calls that live and die with that of process i.
func (y *system) alive(s *state, i int) (all []int) {
	for j := range y.processes() {
		if p := &s.process[j]; p.phase != dead && (j == i || p.is(runs) && s.process[i].is(runs)) {
			all = append(all, j)
		}
	}
	return all
}

// each calls f with each id.
func (l *idents) each(f func(*ident)) {
	for i := range l {
		f(&l[i])
	}
}

// user returns the live call that waits with an id, or holds the lock by it; nil if there is none. A call to which a
// lease was passed does not look after its ticket any more.
func (s *state) user(id ident) *process {
	if id == nobody {
		return nil
	}
	for i := range s.process {
		p := &s.process[i]
		if p.held == id || p.held == nobody && p.id == id {
			return p
		}
	}
	return nil
}

// runOf returns the tickets behind t that are granted with it.
func (y *system) runOf(s *state, t ticket) (run idents) {
	if !t.runs || y.keeps(readersEndRuns) && s.hasReader() {
		return run
	}
	behind := false
	for _, o := range s.queue {
		switch {
		case o.id == t.id:
			behind = true
		case o.id == nobody || !behind:
		case !o.runs:
			if y.keeps(runIsInOrder) {
				return run
			}
		case run[maxRun-1] == nobody:
			run = run.with(o.id)
		}
	}
	return run
}

// passes is how a lease goes to the next of its run, without a command.
func (e *expander) passes(i int) {
	p := &e.from.process[i]
	id := p.run[0]
	if id == nobody || p.ends && e.keeps(latecomersEndIt) {
		return
	}
	j := id.process()
	q := &e.from.process[j]
	if q.id != id || q.phase != queued && (q.phase != requesting || e.keeps(answeredAreNext)) {
		return
	}
	e.can(move{text: "passes the lock on", id: p.held, who: i}, func(s *state) { e.pass(s, i, j) })
}

func (y *system) pass(s *state, i, j int) {
	p, q := s.process[i], s.process[j]
	s.notePass(q.id, &p)
	if q.phase == requesting { // its client may send it again
		y.goesAstray(s, q.sent())
	}
	if q.copied && y.keeps(passMarks) {
		y.undo(s, q.id, true)
	}
	s.process[j] = process{
		role: q.role, phase: holding, left: q.left, last: q.last, id: q.id, copied: p.copied, token: p.token + 1,
		held: p.held, run: idents{p.run[1]}, had: p.had.with(q.id), ends: p.ends, forgotten: p.forgotten, renewal: p.renewal,
	}
	s.process[i].becomeIdle()
	s.noteStart(&s.process[j])
}

// had returns who was served by p's lease, whose tickets are to be taken off.
func (y *system) had(p *process, by rule) (had idents) {
	if y.keeps(by) {
		had = p.had
	}
	return had
}

// loseRunOf ends the lease whose run has the id: the server has granted that, so it has ended the lease.
func (y *system) loseRunOf(s *state, id ident) {
	for i := range s.process {
		p := &s.process[i]
		if (p.phase == holding || p.phase == lapsed) && (p.run.has(id) || p.had.has(id)) {
			y.lose(s, i)
			return
		}
	}
}

// losses is that the server forgets a hold too early, as if somebody had deleted it.
func (e *expander) losses(id ident) {
	p := e.from.user(id)
	if e.from.faults.losses == 0 || p == nil || p.phase != holding {
		return
	}
	e.can(move{text: "is deleted", id: id, kind: fault}, func(s *state) {
		s.faults.losses--
		s.user(id).forgotten = true
		s.end(id)
	})
}

// takingOff is that the tickets of those who were served are taken off while the lease goes on.
func (e *expander) takingOff(i int) {
	p := &e.from.process[i]
	if (p.phase != holding && p.phase != lapsed) || e.from.index(p.had[0]) < 0 && e.from.index(p.had[1]) < 0 {
		return
	}
	e.can(move{text: "those who were served are taken off", id: p.held, kind: chance}, func(s *state) {
		e.runCancel(s, command{verb: cancel, id: p.had[0], had: p.had})
	})
}

// isSucceeded reports whether a call of the run holds the lock by a grant of its own.
func (s *state) isSucceeded(p *process) bool {
	for j := range s.process {
		if q := &s.process[j]; q.phase == holding && q.held == q.id && (p.run.has(q.id) || p.had.has(q.id)) {
			return true
		}
	}
	return false
}

// noteArrival notes a ticket that does not stand at the tail, or is a reader's: the holder is told at once.
func (s *state) noteArrival(i int) {
	if p := s.user(s.holder); p != nil && p.is(runs) && (s.queue[i].reads || i+1 < maxTickets && s.queue[i+1].id != nobody) {
		p.ends = true
	}
}

// notePass notes that the holder p passes the lock to the call with the id.
func (s *state) notePass(id ident, p *process) {
	if s.hasLive(true) && !p.forgotten {
		s.wrongs |= unfair
	}
	for _, t := range s.queue {
		if t.id == id {
			return
		}
		if o := s.user(t.id); o != nil && o.phase == queued && !p.forgotten && !t.unseen {
			s.wrongs |= overtaken
		}
	}
}

// eachReserved calls f with each token that is reserved for one of a run.
func (s *state) eachReserved(f func(token)) {
	reserved := func(first token, run idents) {
		for k := range filled(run[:]) {
			f(first + token(k) + 1)
		}
	}
	for i := range s.process {
		reserved(s.process[i].token, s.process[i].run)
		reserved(s.process[i].push.token, s.process[i].push.run)
	}
	for i := range s.pushes {
		reserved(s.pushes[i].token, s.pushes[i].run)
	}
}
