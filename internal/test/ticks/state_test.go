package ticks

const (
	maxCalls = 3
	maxTicks = 2

	within = 2          // D: how far a tick may be from the server's clock
	period = 2 * within // between two ticks
	lease  = 1          // without a renewal
	first  = 2 * within // the first tick
	keep   = 2*within + lease

	quarantine = 2*within + 1                  // for so many steps a server that has lost what it had grants nothing
	end        = first + period + 2*within + 2 // nothing happens after it
)

// instant returns when a tick is, by a clock that is right.
func instant(tick int8) int8 { return first + tick*period }

// A system is a few calls, each of a replica of its own.
type system struct {
	off    rule
	calls  []start
	faults faults
}

// A start says which tick a call is for, and by how much its replica's clock is late.
type start struct{ tick, late int8 }

// faults are how many of each may still come.
type faults struct {
	deaths   int8 // of replicas
	pauses   int8 // a replica does not renew its lease in time
	losses   int8 // answers that get lost
	copies   int8 // commands that arrive later, besides the one that is answered
	refusals int8 // marks that the server refuses
	failures int8 // runs that fail
	early    int8 // steps of time that are too early
	quits    int8 // callers that give up before their run begins
	restarts int8 // of the server, without its data
}

type phase int8

const (
	idle     phase = iota // its clock has not come to the tick
	waits                 // for the lock
	holds                 // the lock, and has to begin the tick
	asked                 // the server has answered, and the replica has not read it
	runs                  // the job
	ended                 // the run has, and is to be marked
	told                  // the server has marked it, and the replica has not read that
	released              // the lock, with the mark yet to be written: only if that rule is off
	over                  // the call has returned
	dead
)

type answer int8

const (
	none answer = iota
	begun
	ran    // elsewhere
	off    // the clock
	failed // begun twice
	busy
	lost
	ranHere
)

// A call is one of a replica.
type call struct {
	phase  phase
	answer answer // that the server has given, or with which the call has returned
	hold   int8   // the number of its hold; 0: none yet
	lost   bool   // that hold
	fails  bool   // the run did
}

// A lock is the job's.
type lock struct {
	hold  int8 // 0: free
	until int8 // it lasts until the end of that step
}

// A note is what the server knows of a tick.
type note struct {
	by    [2]int8 // holds that have begun it
	ran   bool
	until int8
}

// A tally is what the judge knows of a tick.
type tally struct {
	runs  int8 // that have begun
	cut   int8 // of which the mark is rightly missing
	whole int8 // that have ended while their holds lasted
	begun int8 // holds that have begun it while they lasted
}

// A state is all there is at one time.
type state struct {
	now    int8
	holds  int8 // so far
	faults faults
	call   [maxCalls]call
	late   [maxCalls]int8 // the hold of a begin that is on its way
	lock   [maxTicks]lock
	note   [maxTicks]note
	tally  [maxTicks]tally
	broken promise // what the last move has broken
}

// A promise is what must not break.
type promise string

const (
	once      promise = "once"
	alone     promise = "alone"
	inTime    promise = "in time"
	elsewhere promise = "elsewhere"
	begunTwo  promise = "failed"
	waitsOn   promise = "waits"
)

// Time returns when it is.
func (s state) Time() int { return int(s.now) }

// check says which promise a state breaks.
func (s *state) check() promise {
	if s.broken != "" {
		return s.broken
	}
	live := 0
	for _, c := range s.call {
		if c.phase == runs && !c.lost {
			live++
		}
	}
	if live > 1 {
		return alone
	}
	for _, t := range s.tally {
		if t.runs > 2 || t.runs > 1+t.cut {
			return once
		}
	}
	return ""
}
