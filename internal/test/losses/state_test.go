package losses

const (
	maxIDs     = 4
	maxDisowns = 2
)

// A system is the start of a search.
type system struct {
	off      rule
	capacity int  // how many may hold the lock at a time
	ids      int8 // how many ids exist in all
	blind    bool // the process does not learn of a loss
	faults   faults
}

// faults limits how often each fault may still happen.
type faults struct {
	saves, losses int8
	gives         int8 // calls that give up
}

// set is a set of ids.
type set uint8

func (s set) has(id int8) bool { return s&(1<<id) != 0 }
func (s *set) add(id int8)     { *s |= 1 << id }
func (s *set) remove(id int8)  { *s &^= 1 << id }

// upTo returns the ids up to a number.
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
	asks           // acquire is in flight
	granted        // the answer is in flight
	refused        // the answer "busy" is in flight
	holds          // the call holds the lock
	releases       // release is in flight
	cancels        // a cancel is in flight
	released       // the answer to release is in flight
	canceled       // the answer to cancel is in flight
	over
)

// A call has an id, its number.
type call struct {
	phase  phase
	before bool // a recovery has begun since the release or the cancel was sent
	named  set  // the holders in the answer in flight
}

// isUsed reports whether the process knows the id of the call.
func (c call) isUsed() bool {
	return c.phase != unused && c.phase != cancels && c.phase != canceled && c.phase != over
}

// A disown is an execution of disown.lua in flight.
type disown struct {
	ends, stay set
	posted     bool
}

// A state is everything in the model at one time.
type state struct {
	faults  faults
	server  set // the holders
	saved   set // the holders when the state was saved
	calls   [maxIDs]call
	made    int8 // ids so far
	ended   int8 // the greatest number that has ended for certain; -1: none
	due     bool // a recovery is to begin
	reading bool // a recovery has begun, and has read the numbers or the ids in use
	read    disown
	disowns [maxDisowns]disown
	killed  bool // a hold in use was ended
	shown   bool // an answer has named a hold that has ended
}

// Time returns 0: there is no clock.
func (state) Time() int { return 0 }

// used returns the ids that are in use, as far as the process knows.
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

// broken returns the promise that the state breaks.
func (y *system) broken(s *state) string {
	if s.killed {
		return "a hold in use was ended"
	}
	if !s.isQuiet() || y.blind && !s.shown { // the next call finds it
		return ""
	}
	for id := range s.made {
		if s.server.has(id) && s.calls[id].phase == over {
			return "an ended hold stays"
		}
	}
	return ""
}
