package votes

const (
	nodes     = 3
	processes = 2
	quorum    = 2
	lease     = 2
	never     = -1

	// Of systems with clocks:
	unit     = 4  // how far a clock goes while a lease is half over, in tokens
	maxAhead = 12 // how far a token may be ahead of a node's clock
)

// A system is what a search begins with.
type system struct {
	off      rule
	end      int8 // nothing happens after it
	attempts int8 // of the first process; the others have one
	ahead    int8 // by how much the counter of the first node is ahead in the beginning
	forgets  int8 // how often the last node may forget
	queues   bool // a process that is refused waits in the queue of the first node, and releases take time
	slow     bool // answers to the first process take time
	late     bool // processes give up, and what they have sent to the last node arrives late
	clocks   bool // tokens follow the clocks, and the first node may be gone for good
	together bool // acquires of the first process go out with those for other locks, and bring two tokens
}

// quorum is at how many nodes a hold has to count.
func (y *system) quorum() int8 {
	if y.keeps(majority) {
		return quorum
	}
	return quorum - 1
}

// A ballot is what became of a process' attempt at a node.
type ballot int8

const (
	unasked ballot = iota
	asked          // an acquire is on its way
	left           // the run of several has left it to acquire.lua
	queued         // in the queue of the first node
	answers        // granted, which the process does not know yet
	granted
	refused
	freed // the release is confirmed
)

type phase int8

const (
	idle phase = iota
	asks
	raises   // it has a token, which not all of its nodes know
	works    // until the deadline
	releases // the first node is left
)

// A process wants the lock.
type process struct {
	phase   phase
	attempt int8
	token   int8 // of its hold
	last    int8 // that it may pass the lock on with
	ballots [nodes]vote
	missed  bool // it was woken at the first node while the hold before it was in the way at another
}

// A vote is what a process has of a node.
type vote struct {
	ballot
	sent     int8
	deadline int8
	token    int8 // that the node gave
	knows    int8 // the counter of the node, as far as it is known
}

// A node is a server.
type node struct {
	holder  int8 // an id; 0: free
	until   int8
	waiter  int8 // an id; 0: nobody
	counter int8
	since   int8  // when it forgot; never: it has not, or grants again
	done    uint8 // ids that are refused
	late    uint8 // ids whose acquire may still arrive
	cancel  uint8 // ids whose cancel is on its way
}

// A state is all there is at one time.
type state struct {
	now     int8
	forgets int8
	last    int8 // the greatest token that a process began to work with
	back    bool // a process began with a lesser one
	gone    bool // the first node answers nobody
	proc    [processes]process
	node    [nodes]node
}

// answers reports whether a node does.
func (s *state) answers(n int) bool { return n != first || !s.gone }

// clock is what the clock of a node says, in tokens.
func (y *system) clock(s *state) int8 {
	if !y.clocks {
		return 0
	}
	return s.now * unit
}

// mayRaise reports whether a node may be told of a token.
func (y *system) mayRaise(s *state, n int, token int8) bool {
	return s.answers(n) && (!y.clocks || !y.keeps(clockBound) || token <= y.clock(s)+maxAhead)
}

// Time returns when it is.
func (s state) Time() int { return int(s.now) }

// id is the name of an attempt.
func (y *system) id(i int, attempt int8) int8 {
	if !y.keeps(newIDs) {
		attempt = 0
	}
	return 1 + int8(i)*4 + attempt
}

// first is the node in whose queue processes wait.
const first = 0

// far is the node at which things arrive late, and which may forget.
const far = nodes - 1

// deadline is until when a process has a hold.
func (y *system) deadline(p *process) int8 {
	var all [nodes]int8
	for i, v := range p.ballots {
		if v.ballot == granted {
			all[i] = v.deadline
		}
	}
	nth := y.quorum()
	if !y.keeps(kthLatest) {
		nth = 1
	}
	return nth2(all, nth)
}

// nth2 returns the nth greatest of all.
func nth2(all [nodes]int8, nth int8) int8 {
	for range nth - 1 {
		greatest := 0
		for i := range all {
			if all[i] > all[greatest] {
				greatest = i
			}
		}
		all[greatest] = -1
	}
	return max(all[0], all[1], all[2])
}

// broken says which promise does not hold.
func (y *system) broken(s *state) string {
	workers := 0
	for i := range s.proc {
		p := &s.proc[i]
		if p.phase == works && s.now < y.deadline(p) {
			workers++
		}
		if p.missed {
			return "a process is woken by a release that is in its way"
		}
	}
	for _, d := range s.node {
		if d.holder != 0 && d.done&(1<<d.holder) != 0 {
			return "a node grants the lock to an id that is over"
		}
	}
	switch {
	case workers > 1:
		return "two work"
	case s.back:
		return "a token goes back"
	}
	return ""
}
