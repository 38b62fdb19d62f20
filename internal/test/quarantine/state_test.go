package quarantine

const (
	most  = 3 // processes
	lease = 2 // of a hold, and the time to accept a grant
)

// A system is what a search begins with.
type system struct {
	off       rule
	processes int
	end       int8 // nothing happens after it
	losses    int8 // how often the server may lose data
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

type phase int8

const (
	idle   phase = iota
	asks         // an acquire is on its way
	queued       // in the queue, and will be told
	pushed       // a message of a grant is on its way
)

// A process wants the lock.
type process struct {
	phase    phase
	trusts   int8 // the id of a server; 0: none
	carries  int8 // what the acquire on its way says of that
	sent     int8 // when it was sent, or the message
	deadline int8 // it works before that; 0: never
}

// data is what the server has of the lock.
type data struct {
	holder int8 // 0: free
	until  int8
	waiter int8 // 0: nobody
}

// A state is all there is at one time.
type state struct {
	now    int8
	losses int8
	proc   [most]process
	id     int8 // of the server
	since  int8 // when it was known by that first; -1: it is not known yet
	data   data
	saved  data // what it has when it comes back
}

// Time returns when it is.
func (s state) Time() int { return int(s.now) }

// broken says that more than one process works.
func (s *state) broken() string {
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
