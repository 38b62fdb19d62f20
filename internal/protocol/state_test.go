package protocol

// An ident is an id: of a ticket, and of the hold that comes of it. The upper bits are its process.
type ident uint8

const (
	nobody    = 0
	serial    = 5 // bits of an ident below its process
	maxSerial = 1<<serial - 1
)

func newIdent(p, n int) ident { return ident(p<<serial | n) }
func (i ident) process() int  { return int(i) >> serial }
func (i ident) number() int   { return int(i) & maxSerial }
func (i ident) bit() uint32   { return 1 << i.number() }

// A token is a fencing token. Only the order of tokens matters: states are compared with their tokens
// replaced by ranks.
type token uint8

// A phase is where a process is on its way to the lock and back.
type phase uint8

const (
	idle      phase = iota // between two calls
	asking                 // acquire is under way
	queued                 // the server has a ticket; a push or a poll will bring the grant
	holding                // by the promise: local now < deadline
	lapsed                 // the deadline has passed, and nobody noticed yet
	releasing              // release is under way
	dead
)

// An answer is what a script said, on its way back.
type answer struct {
	kind  kind
	token token // of the grant, or the fencing counter in a "queued"
	good  bool  // what it allows has not run out: the deadline of a grant, the window of a "queued"
}

type kind uint8

const (
	none kind = iota
	granted
	inQueue
	busy
	refused // the id is in the done set
	gone    // the polled ticket is not there
	notHeld // the renewed hold is not there
)

// A process has one request or one hold at a time, as the cohort of a key has.
type process struct {
	phase phase
	left  uint8 // acquisitions to come
	last  uint8 // serial number of its newest id

	id     ident
	former ident // a hold that the request hands over, or a ticket that got lost
	lost   bool  // it is the ticket
	mark   bool  // former is to be marked as over
	wait   bool  // and not only try
	twice  bool  // more than one copy of acquire was written

	stamp   token // the fencing counter in the last "queued"
	window  bool  // the accept window of the last "queued" is open
	push    token // came before the answer to acquire
	token   token // of the hold
	answer  answer
	polls   [2]answer
	renewal answer
}

// A command is on its way to the server.
type command struct {
	verb   verb
	id     ident
	former ident
	lost   bool
	mark   bool // the id that ends is to be marked as over
	wait   bool
	stray  bool // nobody looks after it: it runs once, late, or never
}

type verb uint8

const (
	noVerb verb = iota
	acquire
	release
	cancel
)

// A push is the news of a grant, on its way for as long as it likes.
type push struct {
	id    ident
	token token
}

// A ticket is a place in the queue.
type ticket struct {
	id     ident
	unseen bool // for three polls
}

const (
	maxProcesses = 3
	maxTickets   = 8
	maxCommands  = 10
	maxPushes    = 10
)

// A state is all that the protocol's future depends on. Lists are filled from the left and end with
// the first zero element.
type state struct {
	// The server.
	holder   ident
	token    token // the holder's
	waiting  bool  // the holder's grant has not been accepted; kept only if nothing else ends it
	counter  token // fencing counter
	queue    [maxTickets]ticket
	done     [maxProcesses]uint32 // by process, a bit for each number
	started  token                // the highest token that a hold has started with, for property F
	disorder bool                 // one has started with a token that was not above that
	commands [maxCommands]command
	pushes   [maxPushes]push
	process  [maxProcesses]process
	faults   faults // that may still happen
}

// Faults says how often what may happen.
type faults struct {
	replays uint8 // a command is written again, and both copies arrive
	delays  uint8 // a live process is too slow for its lease, its accept window or its polls
	cancels uint8 // a call ends by its context, or because its connection fails
	deaths  uint8 // of processes
}

func (s *state) enqueue(id ident, first bool) {
	n := 0
	for s.queue[n].id != nobody {
		n++
	}
	if first {
		copy(s.queue[1:n+1], s.queue[:n])
		n = 0
	}
	s.queue[n] = ticket{id: id}
}

// place is where the ticket stands in the queue, or -1.
func (s *state) place(id ident) int {
	for i, t := range s.queue {
		switch t.id {
		case nobody:
			return -1
		case id:
			return i
		}
	}
	return -1
}

// drop takes a ticket off the queue, if it is there.
func (s *state) drop(id ident) {
	if i := s.place(id); i >= 0 {
		copy(s.queue[i:], s.queue[i+1:])
		s.queue[maxTickets-1] = ticket{}
	}
}

func (s *state) isDone(id ident) bool { return s.done[id.process()]&id.bit() != 0 }

// atServer says whether the server has the id as a hold or a ticket.
func (s *state) atServer(id ident) bool { return s.holder == id || s.place(id) >= 0 }

// post adds a command, unless the same one is on its way: both together do what one does.
func (s *state) post(c command) {
	for i, d := range s.commands {
		switch d {
		case command{}:
			s.commands[i] = c
			return
		case c:
			if !c.stray {
				return
			}
		}
	}
	panic("maxCommands is too small")
}

func (s *state) removeCommand(i int) {
	copy(s.commands[i:], s.commands[i+1:])
	s.commands[maxCommands-1] = command{}
}

func (s *state) publish(id ident, t token) {
	for i, p := range s.pushes {
		if p.id == nobody {
			s.pushes[i] = push{id, t}
			return
		}
	}
	panic("maxPushes is too small")
}

func (s *state) removePush(i int) {
	copy(s.pushes[i:], s.pushes[i+1:])
	s.pushes[maxPushes-1] = push{}
}
