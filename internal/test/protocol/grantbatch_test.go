package protocol

// Adjacent tickets of one process are granted the lock as a batch (rule 25). The calls with the role batches belong to one
// process: each is an entry of state.process. What the process knows about the lease moves from one call to the next.

// alive returns the calls that live and die with the call i.
func (y *system) alive(s *state, i int) (all []int) {
	for j := range y.processes() {
		if p := &s.process[j]; p.phase != dead && (j == i || p.is(batches) && s.process[i].is(batches)) {
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

// user returns the live call that waits with an id, or holds the lock by it; nil if there is none. A call to which a lease was
// passed no longer uses its ticket.
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

// grantBatch returns the tickets behind t that are granted together with it.
func (y *system) grantBatch(s *state, t ticket) (batch idents) {
	if !t.batches || y.keeps(readersEndBatches) && s.hasReader() {
		return batch
	}
	behind := false
	for _, o := range s.queue {
		switch {
		case o.id == t.id:
			behind = true
		case o.id == nobody || !behind:
		case !o.batches:
			if y.keeps(batchIsInOrder) {
				return batch
			}
		case batch[maxBatch-1] == nobody:
			batch = batch.with(o.id)
		}
	}
	return batch
}

// passes adds that a lease goes to the next member of its batch, without a command.
func (e *expander) passes(i int) {
	p := &e.from.process[i]
	id := p.batch[0]
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
		held: p.held, batch: idents{p.batch[1]}, had: p.had.with(q.id), ends: p.ends, forgotten: p.forgotten, renewal: p.renewal,
	}
	s.process[i].becomeIdle()
	s.noteStart(&s.process[j])
}

// had returns the calls that p's lease has served, whose tickets have to be removed.
func (y *system) had(p *process, by rule) (had idents) {
	if y.keeps(by) {
		had = p.had
	}
	return had
}

// loseBatchOf ends the lease whose batch contains the id: a grant of that id proves that the server has ended the lease.
func (y *system) loseBatchOf(s *state, id ident) {
	for i := range s.process {
		p := &s.process[i]
		if (p.phase == holding || p.phase == lapsed) && (p.batch.has(id) || p.had.has(id)) {
			y.lose(s, i)
			return
		}
	}
}

// losses adds that the server forgets a hold too early, as if its key had been deleted.
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

// takingOff adds that the tickets of served calls are removed while the lease continues.
func (e *expander) takingOff(i int) {
	p := &e.from.process[i]
	if (p.phase != holding && p.phase != lapsed) || e.from.index(p.had[0]) < 0 && e.from.index(p.had[1]) < 0 {
		return
	}
	e.can(move{text: "the tickets of served calls are removed", id: p.held, kind: chance}, func(s *state) {
		e.runCancel(s, command{verb: cancel, id: p.had[0], had: p.had})
	})
}

// isSucceeded reports whether a call of the batch holds the lock by a grant of its own.
func (s *state) isSucceeded(p *process) bool {
	for j := range s.process {
		if q := &s.process[j]; q.phase == holding && q.held == q.id && (p.batch.has(q.id) || p.had.has(q.id)) {
			return true
		}
	}
	return false
}

// noteArrival records a reader's ticket, or one that is not at the tail: the holder is notified immediately.
func (s *state) noteArrival(i int) {
	if p := s.user(s.holder); p != nil && p.is(batches) && (s.queue[i].reads || i+1 < maxTickets && s.queue[i+1].id != nobody) {
		p.ends = true
	}
}

// notePass records that the holder p passes the lock to the call with the id.
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

// eachReserved calls f with each token that is reserved for a member of a batch.
func (s *state) eachReserved(f func(token)) {
	reserved := func(first token, batch idents) {
		for k := range filled(batch[:]) {
			f(first + token(k) + 1)
		}
	}
	for i := range s.process {
		reserved(s.process[i].token, s.process[i].batch)
		reserved(s.process[i].push.token, s.process[i].push.batch)
	}
	for i := range s.pushes {
		reserved(s.pushes[i].token, s.pushes[i].batch)
	}
}
