package losses

const (
	maxIDs     = 4
	maxDisowns = 2
)

// A system is what a search begins with.
type system struct {
	off      rule
	capacity int  // how many may hold the lock together
	ids      int8 // how many are made in all
	blind    bool // the process does not learn that the server was away
	faults   faults
}

// faults are how many of each may still come.
type faults struct {
	saves, losses int8
	gives         int8 // calls that give up
}

// set is a set of ids.
type set uint8

func (s set) has(id int8) bool { return s&(1<<id) != 0 }
func (s *set) add(id int8)     { *s |= 1 << id }
func (s *set) remove(id int8)  { *s &^= 1 << id }

// upTo is the ids up to a number.
func upTo(n int8) set { return 1<<(n+1) - 1 }

func (s set) count() (n int) {
	for ; s != 0; s &= s - 1 {
		n++
	}
	return n
}

type phase int8

const (
	unused   phase = iota
	asks           // acquire is on its way
	granted        // the answer is on its way
	refused        // and says that the lock is busy
	holds          // the call holds the lock
	releases       // release is on its way
	cancels        // a cancel is on its way
	released       // the answer to release is on its way
	canceled       // the answer to cancel is on its way
	over
)

// A call has an id, its number.
type call struct {
	phase  phase
	before bool // a recovery has begun since the release or the cancel was sent
	named  set  // the holders in the answer on its way
}

// isUsed reports whether the process knows the id of the call.
func (c call) isUsed() bool {
	return c.phase != unused && c.phase != cancels && c.phase != canceled && c.phase != over
}

// A disown is a run on its way.
type disown struct {
	ends, stay set
	posted     bool
}

// A state is all there is at one time.
type state struct {
	faults  faults
	server  set // who holds the lock
	saved   set // who did when it was saved
	calls   [maxIDs]call
	made    int8 // ids so far
	ended   int8 // the greatest number that is known to be over; -1: none
	due     bool // a recovery is to begin
	reading bool // it has begun, and knows one of the numbers and the ids in use
	read    disown
	disowns [maxDisowns]disown
	killed  bool // a hold in use was ended
	shown   bool // an answer has named a hold that has ended
}

// Time returns 0: there is no clock.
func (state) Time() int { return 0 }

// used is the ids that are in use, as far as the process knows.
func (s *state) used() (all set) {
	for id := range s.made {
		if s.calls[id].isUsed() {
			all.add(id)
		}
	}
	return all
}

// isQuiet reports whether nothing is on its way, and no fault can come.
func (s *state) isQuiet() bool {
	for id := range s.made {
		if p := s.calls[id].phase; p != holds && p != over {
			return false
		}
	}
	return !s.due && !s.reading && s.disowns == [maxDisowns]disown{} && s.faults.losses == 0
}

// broken says what promise a state breaks.
func (y *system) broken(s *state) string {
	if s.killed {
		return "a hold in use was ended"
	}
	if !s.isQuiet() || y.blind && !s.shown { // the next call finds it
		return ""
	}
	for id := range s.made {
		if s.server.has(id) && s.calls[id].phase == over {
			return "a hold that has ended stays"
		}
	}
	return ""
}
