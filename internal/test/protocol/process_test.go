package protocol

// A role is what a process may do.
type role uint8

const (
	writes     role = 1 << iota
	reads           // others may read at the same time
	handsOver       // hands its hold over to its next request
	downgrades      // downgrades its write holds
	keeps           // keeps its place in the queue if it gives up
	batches         // is one call of a process, and may receive the lock from another one

	plain   = writes | handsOver
	fair    = writes | keeps
	batcher = writes | batches
	writer  = writes | downgrades
	reader  = reads
	both    = writer | reader
)

var roles = map[string]role{"plain": plain, "fair": fair, "batcher": batcher, "writer": writer, "reader": reader, "both": both}

// A phase is where a process is on its way to the lock and back.
type phase uint8

const (
	idle       phase = iota // between two calls
	requesting              // acquire is in flight
	queued                  // the server has a ticket; a push or a poll will bring the grant
	holding                 // local now < deadline
	lapsed                  // the deadline has passed, and the process has not noticed
	releasing               // release is in flight
	dead
)

// An answer is the answer of a script, on its way back.
type answer struct {
	outcome outcome
	token   token // of the grant, or the stamp of a "queued" answer
	good    bool  // the deadline of the grant, or the accept window of "queued", has not passed
}

type outcome uint8

const (
	none outcome = iota
	granted
	inQueue
	busy
	refused // the id has a done mark
	gone    // the polled ticket is not there
	notHeld // the renewed hold is not there
	asItWas // the peeked ticket waits, and the lock is held
)

// A process has one request or one hold at a time, as the cohort of a plain lock has.
type process struct {
	role  role
	phase phase
	left  uint8 // acquisitions to come
	last  uint8 // serial number of its newest id

	id          ident
	predecessor ident // the hold that the request hands over, or the lost ticket
	lost        bool  // the predecessor is a lost ticket
	mark        bool  // the predecessor gets a done mark
	wait        bool  // the call waits: it is not a TryLock
	reads       bool  // others may read at the same time
	downgrading bool  // downgrade is in flight
	copied      bool  // more than one copy of acquire was written
	stamp       token // the stamp of the last "queued" answer
	window      bool  // the accept window of that answer is open
	placed      bool  // the call knows its place in the queue
	push        news  // a push that came before the answer to acquire
	token       token // of the hold
	answer      answer
	held        ident  // the id of the lease; the id of another call if it was passed on
	batch       idents // calls to which it may be passed
	had         idents // calls to which it was passed
	ends        bool   // it is no longer passed on
	forgotten   bool   // the server forgot it too early
	stood       place  // where the ticket of the hold was kept
	since       place  // no place up to this one is newer than the hold, by its token
	polls       [2]answer
	renewal     answer
}

func (p *process) is(r role) bool { return p.role&r != 0 }

// request sends an acquire under a new id. Its predecessor, if any, is handed over or given up.
func (y *system) request(s *state, i int, reads, wait bool, predecessor ident, lost, mark bool) {
	p := &s.process[i]
	if y.keeps(idsAreNew) {
		p.last++
	} else {
		p.last = 1
	}
	if p.last > maxSerial {
		panic("maxSerial is too small")
	}
	if p.placed && !lost {
		s.wrongs |= sentBack
	}
	*p = process{
		role: p.role, phase: requesting, left: p.left, last: p.last, id: newIdent(i, int(p.last)),
		predecessor: predecessor, lost: lost, mark: mark, wait: wait, reads: reads, placed: p.placed,
	}
}

// sent returns the acquire that p has sent.
func (p *process) sent() command {
	return command{
		verb: acquire, id: p.id, predecessor: p.predecessor, lost: p.lost, mark: p.mark, wait: p.wait, reads: p.reads,
		keeps: p.is(keeps), batches: p.is(batches),
	}
}

// isUnderWay reports whether an acquire of p has yet to run.
func (p *process) isUnderWay() bool { return p.phase == requesting && p.answer.outcome == none }

// becomeIdle ends the call, or the hold.
func (p *process) becomeIdle() { *p = process{role: p.role, left: p.left, last: p.last} }

// undo sends a cancel of an id.
func (y *system) undo(s *state, id ident, mark bool) {
	s.post(command{verb: cancel, id: id, mark: mark})
}

// answered handles the answer to acquire.
func (y *system) answered(s *state, i int) {
	p := &s.process[i]
	a := p.answer
	p.answer = answer{}
	switch a.outcome {
	case granted:
		y.granted(s, i, a)
	case inQueue:
		early := p.push
		p.phase, p.predecessor, p.lost, p.mark, p.push = queued, nobody, false, false, news{}
		p.stamp, p.window, p.placed = a.token, a.good, true
		if early != (news{}) {
			y.pushed(s, i, early)
		}
	case busy:
		if p.copied && y.keeps(busyIsUndone) {
			y.undo(s, p.id, y.keeps(undoMarks))
		}
		p.becomeIdle()
	case refused:
		y.request(s, i, p.reads, p.wait, nobody, false, false)
	}
}

// granted starts a hold, unless the answer came too late. Then the call keeps waiting and polls for what is left of the grant.
// Until that poll is answered, no push counts.
func (y *system) granted(s *state, i int, a answer) {
	p := &s.process[i]
	switch {
	case a.good || !y.keeps(lateIsUnused):
		y.hold(s, i, a.token)
	case y.keeps(lateIsPolled):
		p.phase, p.predecessor, p.lost, p.mark, p.push = queued, nobody, false, false, news{}
		p.stamp, p.window = 0, false
	default:
		y.undo(s, p.id, p.copied && y.keeps(lossMarks))
		y.request(s, i, p.reads, p.wait, nobody, false, false)
	}
}

func (y *system) hold(s *state, i int, t token) {
	p := &s.process[i]
	if y.keeps(grantIsLoss) {
		y.loseBatchOf(s, p.id)
	}
	*p = process{
		role: p.role, phase: holding, left: p.left, last: p.last, id: p.id, copied: p.copied, reads: p.reads, token: t,
		held: p.id, ends: p.ends, stood: p.stood, since: p.since,
	}
	s.noteStart(p)
}

// pushed handles a push that grants a queued request.
func (y *system) pushed(s *state, i int, n news) {
	p := &s.process[i]
	if (n.number > p.stamp || !y.keeps(stampIsCompared)) && (p.window || !y.keeps(windowIsChecked)) {
		y.hold(s, i, n.token)
		p.batch = n.batch
	}
}

// arrived handles a push.
func (y *system) arrived(s *state, n push) {
	i := n.id.process()
	p := &s.process[i]
	holder := s.user(n.id)
	switch {
	case holder != nil && holder.held == n.id && holder.phase != releasing: // the lease is known, also if it was passed on
	case p.id != n.id || p.phase == releasing || p.held != nobody && p.held != n.id:
		if y.keeps(grantIsLoss) {
			y.loseBatchOf(s, n.id)
		}
		y.undo(s, n.id, y.keeps(undoMarks))
	case p.phase == requesting:
		p.push = n.news
	case p.phase == queued:
		y.pushed(s, i, n.news)
	}
}

// polled handles the answer to a poll or a peek.
func (y *system) polled(s *state, i int, a answer) {
	p := &s.process[i]
	switch a.outcome {
	case granted:
		y.granted(s, i, a)
	case inQueue:
		p.stamp, p.window, p.placed = a.token, a.good, true
	case asItWas:
		if y.keeps(peeksAreStamped) {
			p.stamp = a.token
		}
		p.window = a.good
	case gone:
		y.request(s, i, p.reads, p.wait, p.id, p.placed, y.keeps(requeueMarks))
	}
}

// renewed handles the answer to a renewal.
func (y *system) renewed(s *state, i int) {
	p := &s.process[i]
	a := p.renewal
	p.renewal = answer{}
	switch {
	case a.outcome == notHeld, p.phase == lapsed && y.keeps(lapseIsLoss):
		y.lose(s, i)
	case a.good:
		p.phase = holding
	}
}

// lose ends a hold that its process did not release.
func (y *system) lose(s *state, i int) {
	p := &s.process[i]
	if p.downgrading {
		y.goesAstray(s, p.sentDowngrade())
	}
	if y.keeps(lossIsReleased) {
		s.post(command{
			verb: cancel, id: p.held, mark: p.copied && y.keeps(lossMarks), had: y.had(p, lossEndsBatch),
			keeps: p.is(keeps), served: p.is(keeps), stood: p.stood, since: p.since,
		})
	}
	p.becomeIdle()
}

// sentRelease returns the release that p has sent.
func (y *system) sentRelease(p *process) command {
	return command{verb: release, id: p.held, mark: p.copied && y.keeps(releaseMarks), keeps: p.is(keeps), had: y.had(p, releaseEndsBatch)}
}

// sentDowngrade returns the downgrade that p has sent.
func (p *process) sentDowngrade() command { return command{verb: downgrade, id: p.held} }

// startDowngrade sends a downgrade. From now on others may read.
func (y *system) startDowngrade(p *process) {
	p.downgrading, p.reads = true, y.keeps(downgradeReads)
}

// downgraded handles the answer to a downgrade.
func (y *system) downgraded(s *state, i int, held bool) {
	p := &s.process[i]
	p.downgrading, p.reads = false, true
	if !held {
		y.lose(s, i)
	}
}

// giveUp ends a call whose acquire or release was not answered: the command may still arrive.
func (y *system) giveUp(s *state, i int) {
	p := &s.process[i]
	c, undo := p.sent(), command{verb: cancel, id: p.id, mark: y.keeps(undoMarks), keeps: p.is(keeps)}
	underWay := p.isUnderWay()
	if p.phase == releasing {
		c, underWay = y.sentRelease(p), true
		undo.id, undo.had = p.held, y.had(p, undoEndsBatch)
		undo.mark, undo.served, undo.stood, undo.since = c.mark, p.is(keeps), p.stood, p.since
	}
	if underWay {
		y.goesAstray(s, c)
	}
	if y.keeps(endIsUndone) {
		s.post(undo)
		if p.predecessor != nobody {
			y.undo(s, p.predecessor, y.keeps(undoMarks))
		}
	}
	p.becomeIdle()
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
		y.goesAstray(s, p.sent())
	case p.phase == releasing:
		y.goesAstray(s, y.sentRelease(p))
	case p.downgrading:
		y.goesAstray(s, p.sentDowngrade())
	}
	*p = process{phase: dead}
}
