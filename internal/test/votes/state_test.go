package votes

const (
	nodes     = 3
	processes = 2
	quorum    = 2
	lease     = 2
	never     = -1

	// Of systems with clocks:
	unit     = 4  // how far a clock advances in half a lease, in tokens
	maxAhead = 12 // how far a token may be ahead of a node's clock
)

// A system is the start of a search.
type system struct {
	off      rule
	end      int8 // nothing happens after it
	bids     int8 // of the first process; the others have one
	ahead    int8 // by how much the counter of the first node is ahead at first
	forgets  int8 // how often the last node may lose its data
	both     bool // the first node may lose its data as well
	queues   bool // a refused process waits in the queue of the first node, and releases take time
	slow     bool // answers to the first process take time
	late     bool // processes give up, and their messages to the last node arrive late
	clocks   bool // tokens follow the clocks, and the first node may be gone forever
	together bool // acquires of the first process are batched with those for other locks, and reserve two tokens
}

// quorum is the number of nodes that have to grant a hold.
func (y *system) quorum() int8 {
	if y.keeps(majority) {
		return quorum
	}
	return quorum - 1
}

// An outcome is the state of a vote.
type outcome int8

const (
	unasked outcome = iota
	asked           // an acquire is in flight
	left            // a batch has left it to acquire.lua
	queued          // in the queue of the first node
	answers         // granted, which the process does not know yet
	granted
	refused
	freed // the release is confirmed
)

type phase int8

const (
	idle phase = iota
	asks
	raises   // it has a token that not all of its nodes know
	works    // until the deadline
	releases // all nodes but the first are released
)

// A process wants the lock.
type process struct {
	phase  phase
	bid    int8
	token  int8 // of its hold
	last   int8 // the last token with which it may pass the lock on
	votes  [nodes]vote
	missed bool // the first node woke it while another node still had the previous hold
}

// A vote is what a process knows about a node.
type vote struct {
	outcome
	sent     int8
	deadline int8
	token    int8 // the token that the node gave
	knows    int8 // the counter of the node, as far as known
}

// A node is a server.
type node struct {
	holder  int8 // an id; 0: free
	until   int8
	waiter  int8 // an id; 0: none
	counter int8
	since   int8  // when it lost its data; never: it has not, or grants again
	done    uint8 // ids that are refused
	late    uint8 // ids whose acquire may still arrive
	cancel  uint8 // ids whose cancel is in flight
}

// A state is everything in the model at one time.
type state struct {
	now     int8
	forgets int8
	last    int8 // the greatest token that a process has worked with
	back    bool // a process has begun with a smaller one
	gone    bool // the first node does not answer
	proc    [processes]process
	node    [nodes]node
}

// answers reports whether a node answers.
func (s *state) answers(n int) bool { return n != first || !s.gone }

// clock is the clock of a node, in tokens.
func (y *system) clock(s *state) int8 {
	if !y.clocks {
		return 0
	}
	return s.now * unit
}

// mayRaise reports whether a node may be raised to a token.
func (y *system) mayRaise(s *state, n int, token int8) bool {
	return s.answers(n) && (!y.clocks || !y.keeps(clockBound) || token <= y.clock(s)+maxAhead)
}

// Time returns the time of the state.
func (s state) Time() int { return int(s.now) }

// id is the id of a bid.
func (y *system) id(i int, bid int8) int8 {
	if !y.keeps(newIDs) {
		bid = 0
	}
	return 1 + int8(i)*4 + bid
}

// first is the node in whose queue processes wait.
const first = 0

// far is the node that may receive messages late and lose its data.
const far = nodes - 1

// deadline returns the end of a process' hold.
func (y *system) deadline(p *process) int8 {
	var all [nodes]int8
	for i, v := range p.votes {
		if v.outcome == granted {
			all[i] = v.deadline
		}
	}
	nth := y.quorum()
	if !y.keeps(kthLatest) {
		nth = 1
	}
	return nth2(all, nth)
}

// nth2 returns the nth greatest value.
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

// broken returns the promise that the state breaks.
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
			return "a node grants the lock to an ended id"
		}
	}
	switch {
	case workers > 1:
		return "two processes work"
	case s.back:
		return "a token falls"
	}
	return ""
}
