package idemmodel

import "math/bits"

const (
	most      = 3 // processes
	perCall   = 2 // ids
	lease     = 1
	maxHold   = 1
	maxIDs    = 2 * most * perCall
	ttl       = maxHold + 2*lease
	maxSilent = 2 // so many runs may never return
)

// A policy decides what happens if an earlier run left no outcome.
type policy int8

const (
	refuse policy = iota
	runAgain
	recovers // it finds out what the runs have done
)

// A system is what a search begins with.
type system struct {
	off    rule
	policy []policy // of each process
	prints [most]int8
	calls  int8 // of the first process; the others have one
	end    int8 // nothing happens after it
	faults faults
	ends   []ending // that a run may choose; nil: keep
}

// faults are how many of each may still come.
type faults struct {
	copies int8 // commands that run once more, later
	losses int8 // answers that get lost
	deaths int8 // of processes
	pauses int8 // a process stands still, and does not renew its lease
	early  int8 // a process takes its lock for lost while the server still has it
	quits  int8 // callers that give up before their run works
	reasks int8 // calls that ask again under another id
	doubts int8 // a process has everything ended again that it has ended
}

// An ending is how a run ends.
type ending int8

const (
	noEnd ending = iota
	keep
	forget
	leave
	void
)

type phase int8

const (
	idle     phase = iota
	asks           // its acquire is on its way, or the answer
	waits          // for the lock
	holds          // the lock, and has to begin
	begins         // the begin is on its way, or the answer
	settles        // the end of an earlier run is on its way, or the answer
	works          // the run
	releases       // the lock first: only if that rule is off
	finishes       // its end is on its way, or the answer
	over
	dead
)

type outcome int8

const (
	none outcome = iota
	held
	busy
	settled
	notHeld
	ended // yes
	wrong // no
)

// An answer is one to a command.
type answer struct {
	outcome outcome
	opened  bool
	seen    record // what is shown of it
}

// A process calls for the work of the key.
type process struct {
	phase  phase
	call   int8 // from 1
	again  int8 // which id of the call it uses
	sent   int8
	answer answer
	ending ending
	target int8 // the run that it settles
	token  int8 // with which its run has begun to work; 0: it has not
	worked bool
	lost   bool // its lock
}

// state of a record.
const (
	gone int8 = iota
	open
	done
)

type record struct {
	state, run, id, print, token, earlier, silent, until int8 // a negative run is void, and stands for the one that it has replaced
	returned                                             bool
	found                                                bool // the answer is not the one of the run: another process has found it out
}

// A state is all there is at one time.
type state struct {
	now    int8
	faults faults
	proc   [most]process

	// Commands on their way of which nobody waits for the answer.
	lateAcquires, lateBegins, cancels uint16       // by ids
	copied                            uint16       // ids whose acquire was sent twice
	tokens                            [maxIDs]int8 // of runs that have begun under the id that is cancelled; 0: it has not
	lateEnds                          [2*most + 1]ending

	// The server.
	holder, until, since, counter int8
	granted                       [maxIDs]int8 // the token of the last hold of an id
	doneIDs                       uint16
	record                        record

	// The knowledge of the judge.
	wrong    string
	unknown  uint8 // runs of this life of the record that have worked, and left no outcome
	silent   uint8 // unfinished runs that have not returned
	did      uint8 // runs that have done the work
	recorded uint8 // runs whose answer was ever recorded
	answered int8  // the run with the answer of this life
	found    bool  // that answer was found out
	last     int8  // the last run that the record was opened for
	attempts int8  // the greatest number of an attempt
	lifeEnds int8
}

// Time returns when it is.
func (s state) Time() int { return int(s.now) }

// run is that of a process' present call, and id the id that it uses. A run belongs to the process owner(run).
func (s *state) run(i int) int8 { return int8(i) + most*(s.proc[i].call-1) + 1 }

func (s *state) id(i int) int8 { return perCall*(s.run(i)-1) + s.proc[i].again }

func owner(run int8) int { return int(run-1) % most }

func runOf(id int8) int8 { return id/perCall + 1 }

func bit[T uint8 | uint16](n int8) T { return 1 << n }

func (s *state) fault(why string) {
	if s.wrong == "" {
		s.wrong = why
	}
}

// broken says what is wrong.
func (s *state) broken() string {
	if s.wrong != "" {
		return s.wrong
	}
	for i := range s.proc {
		if p := s.proc[i].phase; p != idle && p != over && p != dead {
			return ""
		}
	}
	if s.lateAcquires|s.lateBegins|s.cancels != 0 || s.lateEnds != [2*most + 1]ending{} {
		return ""
	}
	// A void run stands for one that it has replaced, whose outcome the server does not know.
	if r := &s.record; r.state == open && !r.returned && s.unknown == 0 && s.proc[owner(r.run)].phase != dead {
		return "the record is open, and no run has worked"
	}
	return ""
}

func abs(n int8) int8 { return max(n, -n) }

func count(set uint8) int8 { return int8(bits.OnesCount8(set)) }

// starts notes that a run begins to work which knows of so many earlier ones.
func (y *system) starts(s *state, i int, earlier int8) {
	run, others := s.run(i), s.unknown&^bit[uint8](s.run(i))
	for j := range s.proc {
		p := &s.proc[j]
		ends := p.phase == finishes || p.phase == releases
		if j != i && ends && p.ending == keep && !p.lost && s.recorded&bit[uint8](s.run(j)) == 0 {
			s.fault("a run begins while another one ends that has kept its lock")
		}
	}
	for other := int8(1); other <= 2*most; other++ {
		if others&bit[uint8](other) != 0 && y.prints[owner(other)] != y.prints[i] {
			s.fault("requests are mixed")
		}
	}
	switch {
	case s.answered != 0:
		s.fault("a run begins though there is an answer")
	case y.policy[i] != runAgain && others != 0:
		s.fault("a run begins while the outcome of another is unknown")
	case count(others) > earlier:
		s.fault("an earlier run is not counted")
	case count(others&s.silent) >= maxSilent:
		s.fault("too many runs never return")
	case earlier < s.attempts:
		s.fault("the number of the attempt goes down")
	}
	s.attempts = earlier
	s.unknown |= bit[uint8](run)
	s.silent |= bit[uint8](run)
	p := &s.proc[i]
	p.phase, p.answer, p.token = works, answer{}, s.record.token
}

// sends notes that a process sends the answer of a run, or the one that was found out for it.
func (y *system) sends(s *state, i int, run int8, found bool) {
	switch {
	case s.recorded&bit[uint8](abs(run)) == 0:
		s.fault("an answer is sent that is not recorded")
	case s.answered == run && s.found != found:
		s.fault("two answers are sent")
	case y.prints[owner(abs(run))] != y.prints[i]:
		s.fault("requests are mixed")
	}
	s.proc[i].phase, s.proc[i].answer = over, answer{}
}
