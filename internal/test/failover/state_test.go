package failover

const (
	most   = 3 // processes
	lease  = 2 // of a hold, and the time to accept a grant
	maxLag = 3 // writes that the replica has not got
)

// A system is what a search begins with.
type system struct {
	off       rule
	processes int
	replica   bool // acknowledges what counts; otherwise processes compare the server's id
	jobs      bool // a process that works marks its tick
	end       int8 // nothing happens after it
	faults    faults
}

// quarantine is for how long a server is to be known.
func (y *system) quarantine() int8 {
	switch {
	case !y.keeps(lossesAreWaited):
		return 0
	case !y.keeps(quarantineIsLong):
		return lease - 1
	}
	return lease
}

// faults are how many of each may still come.
type faults struct {
	failovers int8
	moves     int8 // the slot goes to a master whose replica has nothing of it
	lost      int8 // answers that get lost
	losses    int8 // the server is one with what was saved
}

type phase int8

const (
	idle   phase = iota
	asks         // a run of acquire is on its way
	renews       // a run of renew is
	marks        // a run of mark is, which stands for all notes of ticks
	waits        // the run is done, and WAIT is to answer
	queued       // in the queue, and will be told
	pushed       // a message of a grant is on its way
)

// A process wants the lock.
type process struct {
	phase    phase
	sent     int8  // when the run was sent
	of       phase // in the phase waits: what the run was of
	wrote    int8  // in the phase waits: how many writes the replica has to get until WAIT answers; 0: none
	deadline int8  // it works before that; 0: never
	doubtful bool  // the slot has moved, and the replica there has not acknowledged the hold
	trusts   int8  // the id of a server; 0: none
	carries  int8  // what the acquire on its way says of that
}

// copied is what a server has of the lock.
type copied struct {
	holder int8 // 0: free
	until  int8
	waiter int8 // 0: nobody
	marked bool // the tick of the job was run
}

// A state is all there is at one time.
type state struct {
	now    int8
	faults faults
	proc   [most]process
	marked bool // a process relies on its mark
	moved  bool // the slot, in this step
	master copied
	lag    int8           // writes that the replica has not got
	behind [maxLag]copied // what the replica has, and has after each of these writes but the last
	id     int8           // of the server
	since  int8           // when it was known by that first; -1: it is not known yet
	saved  copied         // what it has when it comes back
}

// Time returns when it is.
func (s state) Time() int { return int(s.now) }

// broken says that more than one process works, or that a mark is lost.
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
		return "two work"
	}
	return ""
}
