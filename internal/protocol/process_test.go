package protocol

// ask sends a request under a new id. If former is not nobody, it is handed over or given up.
func (y *system) ask(s *state, i int, wait bool, former ident, lost, mark bool) {
	p := &s.process[i]
	if y.keeps(idsAreNew) {
		p.last++
	} else {
		p.last = 1
	}
	if p.last > maxSerial {
		panic("maxSerial is too small")
	}
	*p = process{
		phase: asking, left: p.left, last: p.last, id: newIdent(i, int(p.last)),
		former: former, lost: lost, mark: mark, wait: wait,
	}
}

// request is the acquire that p has sent.
func (p *process) request() command {
	return command{verb: acquire, id: p.id, former: p.former, lost: p.lost, mark: p.mark, wait: p.wait}
}

// isUnderWay says whether an acquire of p has yet to run.
func (p *process) isUnderWay() bool { return p.phase == asking && p.answer.kind == none }

// leave ends the call, or the hold.
func (p *process) leave() { *p = process{left: p.left, last: p.last} }

// undo has the server forget an id.
func (y *system) undo(s *state, id ident, mark bool) {
	s.post(command{verb: cancel, id: id, mark: mark})
}

// answered deals with the answer to acquire.
func (y *system) answered(s *state, i int) {
	p := &s.process[i]
	a := p.answer
	p.answer = answer{}
	switch a.kind {
	case granted:
		y.granted(s, i, a)
	case inQueue:
		early := p.push
		p.phase, p.former, p.lost, p.mark, p.push = queued, nobody, false, false, 0
		p.stamp, p.window = a.token, a.good
		if early != 0 {
			y.pushed(s, i, early)
		}
	case busy:
		if p.twice && y.keeps(busyIsUndone) {
			y.undo(s, p.id, y.keeps(undoMarks))
		}
		p.leave()
	case refused:
		y.ask(s, i, p.wait, nobody, false, false)
	}
}

// granted starts a hold on an answer that says so, unless it is too late: then the wait goes on.
func (y *system) granted(s *state, i int, a answer) {
	p := &s.process[i]
	if a.good || !y.keeps(lateIsUndone) {
		y.hold(s, i, a.token)
		return
	}
	y.undo(s, p.id, p.twice && y.keeps(lossMarks))
	y.ask(s, i, p.wait, nobody, false, false)
}

func (y *system) hold(s *state, i int, t token) {
	p := &s.process[i]
	*p = process{phase: holding, left: p.left, last: p.last, id: p.id, twice: p.twice, token: t}
	s.disorder = s.disorder || t <= s.started
	s.started = max(s.started, t)
}

// pushed deals with the news that a queued request was granted.
func (y *system) pushed(s *state, i int, t token) {
	p := &s.process[i]
	if (t > p.stamp || !y.keeps(stampIsCompared)) && (p.window || !y.keeps(windowIsChecked)) {
		y.hold(s, i, t)
	}
}

// arrived deals with a push.
func (y *system) arrived(s *state, n push) {
	i := n.id.process()
	p := &s.process[i]
	switch {
	case p.id != n.id || p.phase == releasing:
		y.undo(s, n.id, y.keeps(undoMarks))
	case p.phase == asking:
		p.push = n.token
	case p.phase == queued:
		y.pushed(s, i, n.token)
	}
}

// polled deals with the answer to a poll.
func (y *system) polled(s *state, i int, a answer) {
	p := &s.process[i]
	switch a.kind {
	case granted:
		y.granted(s, i, a)
	case inQueue:
		p.stamp, p.window = a.token, a.good
	case gone:
		y.ask(s, i, true, p.id, true, y.keeps(requeueMarks))
	}
}

// renewed deals with the answer to a renewal.
func (y *system) renewed(s *state, i int) {
	p := &s.process[i]
	a := p.renewal
	p.renewal = answer{}
	switch {
	case a.kind == notHeld, p.phase == lapsed && y.keeps(lapseIsLoss):
		y.lose(s, i)
	case a.good:
		p.phase = holding
	}
}

// lose ends a hold without its process having released it.
func (y *system) lose(s *state, i int) {
	p := &s.process[i]
	if y.keeps(lossIsReleased) {
		y.undo(s, p.id, p.twice && y.keeps(lossMarks))
	}
	p.leave()
}

// freeing is the release that p has sent.
func (y *system) freeing(p *process) command {
	return command{verb: release, id: p.id, mark: p.twice && y.keeps(releaseMarks)}
}

// giveUp ends a call whose acquire or release was not answered: the command may still arrive.
func (y *system) giveUp(s *state, i int) {
	p := &s.process[i]
	c := p.request()
	underWay, mark := p.isUnderWay(), y.keeps(undoMarks)
	if p.phase == releasing {
		c = y.freeing(p)
		underWay, mark = true, c.mark
	}
	if underWay {
		c.stray = true
		s.post(c)
	}
	if y.keeps(endIsUndone) {
		y.undo(s, p.id, mark)
		if p.former != nobody {
			y.undo(s, p.former, y.keeps(undoMarks))
		}
	}
	p.leave()
}

// die ends a process; what it has written may still arrive.
func (y *system) die(s *state, i int) {
	p := &s.process[i]
	c := command{}
	switch {
	case p.isUnderWay():
		c = p.request()
	case p.phase == releasing:
		c = y.freeing(p)
	}
	for j := range s.commands {
		if s.commands[j].verb != noVerb && s.commands[j].id.process() == i {
			s.commands[j].stray = true
		}
	}
	if c.verb != noVerb {
		c.stray = true
		s.post(c)
	}
	*p = process{phase: dead}
}
