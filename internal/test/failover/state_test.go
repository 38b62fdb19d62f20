package failover

const (
	most   = 3 // processes
	lease  = 2 // of a hold, and the time to accept a grant
	maxLag = 3 // writes that the replica does not have
)

// A system is the start of a search.
type system struct {
	off       rule
	processes int
	replica   bool // acknowledges writes; otherwise processes compare the server's id
	jobs      bool // a working process marks its tick
	end       int8 // nothing happens after it
	faults    faults
}

// quarantine is how long a server has to be known before it is trusted.
func (y *system) quarantine() int8 {
	switch {
	case !y.keeps(lossesAreWaited):
		return 0
	case !y.keeps(quarantineIsLong):
		return lease - 1
	}
	return lease
}

// faults limits how often each fault may still happen.
type faults struct {
	failovers int8
	moves     int8 // the slot moves to a master whose replica does not have its data
	lost      int8 // lost answers
	losses    int8 // the server is replaced by one with the saved data
}

type phase int8

const (
	idle   phase = iota
	asks         // acquire is in flight
	renews       // renew is in flight
	marks        // mark is in flight; it stands for all notes of ticks
	waits        // the script has run, and WAIT has not answered
	queued       // in the queue
	pushed       // a message of a grant is in flight
)

// A process wants the lock.
type process struct {
	phase    phase
	sent     int8  // when the script was sent
	of       phase // in the phase waits: which script
	wrote    int8  // in the phase waits: the writes that the replica needs before WAIT answers; 0: none
	deadline int8  // it works before that; 0: never
	doubtful bool  // the slot has moved, and the replica there has not acknowledged the hold
	trusts   int8  // the id of a server; 0: none
	carries  int8  // the id that the acquire in flight carries
}

// copied is what a server knows about the lock.
type copied struct {
	holder int8 // 0: free
	until  int8
	waiter int8 // 0: none
	marked bool // the tick of the job was run
}

// A state is everything in the model at one time.
type state struct {
	now    int8
	faults faults
	proc   [most]process
	marked bool // a process relies on its mark
	moved  bool // the slot has moved in this step
	master copied
	lag    int8           // writes that the replica does not have
	behind [maxLag]copied // the replica's data now, and after each of these writes except the last
	id     int8           // of the server
	since  int8           // when that id was first known; -1: not yet
	saved  copied         // its data after a loss
}

// Time returns the time of the state.
func (s state) Time() int { return int(s.now) }

// broken returns the promise that the state breaks.
func (s *state) broken() string {
	if s.marked && !s.master.marked {
		return "a mark is lost"
	}
	workers := 0
	for _, p := range s.proc {
		if s.now < p.deadline {
			workers++
		}
	}
	if workers > 1 {
		return "two processes work"
	}
	return ""
}
