package protocol

// A role is what a process may do.
type role uint8

const (
	writes     role = 1 << iota
	reads           // and so do others meanwhile
	handsOver       // its hold to its next request
	downgrades      // its holds for writing
	keeps           // its place in the queue, if it gives up

	plain  = writes | handsOver
	fair   = writes | keeps
	writer = writes | downgrades
	reader = reads
	both   = writer | reader
)

var roles = map[string]role{"plain": plain, "fair": fair, "writer": writer, "reader": reader, "both": both}

// A phase is where a process is on its way to the lock and back.
type phase uint8

const (
	idle      phase = iota // between two calls
	asking                 // acquire is under way
	queued                 // the server has a ticket; a push or a poll will bring the grant
	holding                // by the promise: local now < deadline
	lapsed                 // the deadline has passed, and nobody noticed yet
	releasing              // release is under way
	dead
)

// An answer is what a script said, on its way back.
type answer struct {
	kind  kind
	token token // of the grant, or the fencing counter in a "queued"
	good  bool  // what it allows has not run out: the deadline of a grant, the window of a "queued"
}

type kind uint8

const (
	none kind = iota
	granted
	inQueue
	busy
	refused // the id is in the done set
	gone    // the polled ticket is not there
	notHeld // the renewed hold is not there
)

// A process has one request or one hold at a time: of a plain lock all that a cohort has.
type process struct {
	role  role
	phase phase
	left  uint8 // acquisitions to come
	last  uint8 // serial number of its newest id

	id      ident
	former  ident // a hold that the request hands over, or a ticket that got lost
	lost    bool  // it is the ticket
	mark    bool  // former is to be marked as over
	wait    bool  // and not only try
	reads   bool  // others may read meanwhile
	shares  bool  // downgrade is under way
	twice   bool  // more than one copy of acquire was written
	stamp   token // the fencing counter in the last "queued"
	window  bool  // the accept window of the last "queued" is open
	push    news  // came before the answer to acquire
	token   token // of the hold
	answer  answer
	polls   [2]answer
	renewal answer
}

func (p *process) is(r role) bool { return p.role&r != 0 }

// ask sends a request under a new id. If former is not nobody, it is handed over or given up.
func (y *system) ask(s *state, i int, reads, wait bool, former ident, lost, mark bool) {
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
		role: p.role, phase: asking, left: p.left, last: p.last, id: newIdent(i, int(p.last)),
		former: former, lost: lost, mark: mark, wait: wait, reads: reads,
	}
}

// request is the acquire that p has sent.
func (p *process) request() command {
	return command{
		verb: acquire, id: p.id, former: p.former, lost: p.lost, mark: p.mark, wait: p.wait, reads: p.reads,
		keeps: p.is(keeps),
	}
}

// isUnderWay says whether an acquire of p has yet to run.
func (p *process) isUnderWay() bool { return p.phase == asking && p.answer.kind == none }

// leave ends the call, or the hold.
func (p *process) leave() { *p = process{role: p.role, left: p.left, last: p.last} }

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
		p.phase, p.former, p.lost, p.mark, p.push = queued, nobody, false, false, news{}
		p.stamp, p.window = a.token, a.good
		if early != (news{}) {
			y.pushed(s, i, early)
		}
	case busy:
		if p.twice && y.keeps(busyIsUndone) {
			y.undo(s, p.id, y.keeps(undoMarks))
		}
		p.leave()
	case refused:
		y.ask(s, i, p.reads, p.wait, nobody, false, false)
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
	y.ask(s, i, p.reads, p.wait, nobody, false, false)
}

func (y *system) hold(s *state, i int, t token) {
	p := &s.process[i]
	*p = process{
		role: p.role, phase: holding, left: p.left, last: p.last, id: p.id, twice: p.twice, reads: p.reads, token: t,
	}
	s.noteStart(p)
}

// pushed deals with the news that a queued request was granted.
func (y *system) pushed(s *state, i int, n news) {
	p := &s.process[i]
	if (n.number > p.stamp || !y.keeps(stampIsCompared)) && (p.window || !y.keeps(windowIsChecked)) {
		y.hold(s, i, n.token)
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
		p.push = n.news
	case p.phase == queued:
		y.pushed(s, i, n.news)
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
		y.ask(s, i, p.reads, true, p.id, true, y.keeps(requeueMarks))
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
	if p.shares {
		y.goesAstray(s, p.sharing())
	}
	if y.keeps(lossIsReleased) {
		y.undo(s, p.id, p.twice && y.keeps(lossMarks))
	}
	p.leave()
}

// freeing is the release that p has sent.
func (y *system) freeing(p *process) command {
	return command{verb: release, id: p.id, mark: p.twice && y.keeps(releaseMarks), keeps: p.is(keeps)}
}

// sharing is the downgrade that p has sent.
func (p *process) sharing() command { return command{verb: downgrade, id: p.id} }

// share sends a downgrade. From now on others may read.
func (y *system) share(p *process) {
	p.shares, p.reads = true, y.keeps(downgradeReads)
}

// shared deals with the answer to a downgrade.
func (y *system) shared(s *state, i int, held bool) {
	p := &s.process[i]
	p.shares, p.reads = false, true
	if !held {
		y.lose(s, i)
	}
}

// giveUp ends a call whose acquire or release was not answered: the command may still arrive.
func (y *system) giveUp(s *state, i int) {
	p := &s.process[i]
	c, undo := p.request(), command{verb: cancel, id: p.id, mark: y.keeps(undoMarks), keeps: p.is(keeps)}
	underWay := p.isUnderWay()
	if p.phase == releasing {
		c, underWay = y.freeing(p), true
		undo.mark, undo.served = c.mark, p.is(keeps)
	}
	if underWay {
		y.goesAstray(s, c)
	}
	if y.keeps(endIsUndone) {
		s.post(undo)
		if p.former != nobody {
			y.undo(s, p.former, y.keeps(undoMarks))
		}
	}
	p.leave()
}

// goesAstray leaves a copy of a command on a connection that is given up.
func (y *system) goesAstray(s *state, c command) {
	c.stray = true
	s.post(c)
}

// die ends a process; what it has written may still arrive.
func (y *system) die(s *state, i int) {
	p := &s.process[i]
	for j := range s.commands {
		if s.commands[j].verb != noVerb && s.commands[j].id.process() == i {
			s.commands[j].stray = true
		}
	}
	switch {
	case p.isUnderWay():
		y.goesAstray(s, p.request())
	case p.phase == releasing:
		y.goesAstray(s, y.freeing(p))
	case p.shares:
		y.goesAstray(s, p.sharing())
	}
	*p = process{phase: dead}
}
