package ticks

const (
	maxCalls = 3
	maxTicks = 2

	within = 2          // D: how far a tick may be from the server's clock
	period = 2 * within // between two ticks
	lease  = 1          // steps without a renewal
	first  = 2 * within // the first tick
	keep   = 2*within + lease

	quarantine = 2*within + 1                  // steps for which a server without its data grants nothing
	end        = first + period + 2*within + 2 // nothing happens after it
)

// instant returns the time of a tick.
func instant(tick int8) int8 { return first + tick*period }

// A system is a few calls, each of a different replica.
type system struct {
	off    rule
	calls  []start
	faults faults
}

// A start is the tick of a call, and how late its replica's clock is.
type start struct{ tick, late int8 }

// faults limits how often each fault may still happen.
type faults struct {
	deaths   int8 // of replicas
	pauses   int8 // a replica does not renew its lease in time
	losses   int8 // lost answers
	copies   int8 // commands that arrive again later
	refusals int8 // marks that the server refuses
	failures int8 // failed runs
	early    int8 // steps that come too early
	quits    int8 // cancelled calls whose run has not begun
	restarts int8 // the server restarts without its data
}

type phase int8

const (
	idle      phase = iota // the tick has not come by its clock
	waits                  // for the lock
	holds                  // the lock, and has to begin the tick
	asked                  // the server has answered begin, and the replica has not read it
	runs                   // the job
	ended                  // the run has ended, and has to be marked
	confirmed              // the server has marked the run, and the replica has not read that
	released               // the lock, before the mark: only if that rule is off
	over                   // the call has returned
	dead
)

type answer int8

const (
	none answer = iota
	begun
	ran    // elsewhere
	off    // the clock is off
	failed // begun twice
	busy
	lost
	ranHere
)

// A call is a call of one replica.
type call struct {
	phase  phase
	answer answer // given by the server, or returned by the call
	hold   int8   // the number of its hold; 0: none yet
	lost   bool   // the hold was lost
	fails  bool   // the run failed
}

// A lock is the lock of the job.
type lock struct {
	hold  int8 // 0: free
	until int8 // it lasts until the end of that step
}

// A note is what the server knows about a tick.
type note struct {
	by    [2]int8 // holds that have begun it
	ran   bool
	until int8
}

// A tally is what the checks know about a tick.
type tally struct {
	runs  int8 // that have begun
	cut   int8 // runs whose mark may be missing
	whole int8 // runs that have ended while their holds lasted
	begun int8 // holds that have begun it while they lasted
}

// A state is everything in the model at one time.
type state struct {
	now    int8
	holds  int8 // so far
	faults faults
	call   [maxCalls]call
	late   [maxCalls]int8 // the hold whose begin is in flight
	lock   [maxTicks]lock
	note   [maxTicks]note
	tally  [maxTicks]tally
	broken promise // what the last move has broken
}

// A promise must never break.
type promise string

const (
	once      promise = "once"
	alone     promise = "alone"
	inTime    promise = "in time"
	elsewhere promise = "elsewhere"
	begunTwo  promise = "failed"
	waitsOn   promise = "waits"
)

// Time returns the time of the state.
func (s state) Time() int { return int(s.now) }

// check returns the promise that the state breaks.
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
