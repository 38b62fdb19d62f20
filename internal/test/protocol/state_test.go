package protocol

import "slices"

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

// A token is a fencing token, or a number from the same counter. Only the order of tokens matters:
// states are compared with their tokens replaced by ranks.
type token uint8

// A place is where a ticket stands in the queue: before those with higher ones. Places are replaced
// by ranks as well.
type place uint8

// A ticket is an entry of the queue.
type ticket struct {
	id     ident
	place  place
	reads  bool
	keeps  bool // its place outlives it
	runs   bool // it may be granted as one of a run
	unseen bool // its process was not seen for so long that it counts as dead
}

// A command is on its way to the server.
type command struct {
	verb        verb
	id          ident
	predecessor ident
	reads       bool
	lost        bool
	mark        bool // the id that ends is to be marked as over
	wait        bool
	keeps       bool   // the place in the queue outlives the ticket
	runs        bool   // the ticket may be granted as one of a run
	had         idents // to whom the lease that ends was passed
	served      bool   // the place is not needed any more
	stood       place  // where the ticket of the hold that ends was kept
	since       place  // places up to it are not newer than the hold
	stray       bool   // nobody repeats it: it runs once, late, or never
	front       bool   // of two tickets with the same place it is the first; either may be
}

type verb uint8

const (
	noVerb verb = iota
	acquire
	release
	downgrade
	renew
	cancel
)

// A push is the news of a grant. It may be on its way for any time.
type push struct {
	id ident
	news
}

// News is what a push says: the number is compared with the stamp, the token is that of the hold.
type news struct {
	number, token token
	run           idents
}

const (
	maxProcesses = 3
	maxReaders   = 6
	maxTickets   = 8
	maxCommands  = 10
	maxPushes    = 10
	maxRun       = 2 // behind the head
)

// Idents are some ids of a run, in the order of the queue.
type idents [maxRun]ident

func (l idents) has(id ident) bool { return slices.Contains(l[:], id) }

// with returns l with one more.
func (l idents) with(id ident) idents {
	l[slices.Index(l[:], nobody)] = id
	return l
}

// A state is all that decides what may happen next. Lists are filled from the left and end with the first
// zero element.
type state struct {
	// The server.
	holder   ident // of the hold that excludes all others
	readers  [maxReaders]ident
	token    token // the holder's, or that of the readers' phase
	waiting  bool  // the holder's grant is not accepted yet; noted only if nothing else ends it
	ended    end   // what held the free lock before, if a script can still see that
	counter  token // fencing counter
	queue    [maxTickets]ticket
	admit    place                // up to which readers are admitted, although a writer waits
	kept     place                // of the ticket that all processes share that keep one
	done     [maxProcesses]uint32 // by process, a bit for each number
	commands [maxCommands]command
	pushes   [maxPushes]push
	process  [maxProcesses]process
	faults   faults // that may still happen

	history
}

// History is what the checks need and the protocol does not.
type history struct {
	started token  // the highest token that a hold has started with
	written token  // the highest that one for writing has started with
	stood   place  // where the ticket of the holder was kept
	served  uint32 // places whose ticket was granted and released: a bit for each
	passed  uint8  // phases of readers in a row that began, or grew, while a writer waited
	outrun  uint8  // grants in a row to writers while a reader waited
	wrongs  wrong
}

// An end says what it was that ended when the lock became free.
type end uint8

const (
	unknown end = iota
	reading
	writing
)

// Faults says how often each fault may happen.
type faults struct {
	replays uint8 // a command is written again, and both copies arrive
	delays  uint8 // a live process is too slow for its lease, its accept window or its polls
	cancels uint8 // a call ends by its context, or because its connection fails
	deaths  uint8 // of processes
	cuts    uint8 // a script ends after one of its writes
	losses  uint8 // the server forgets a hold too early

	forgeries uint8 // somebody publishes what was heard before, or what no script has written
}

func (f faults) sum() uint8 {
	return f.replays + f.delays + f.cancels + f.deaths + f.cuts + f.losses + f.forgeries
}

func (s *state) isFree() bool { return s.holder == nobody && s.readers[0] == nobody }

func (s *state) isRead() bool { return s.readers[0] != nobody }

func (s *state) reads(id ident) bool { return id != nobody && slices.Contains(s.readers[:], id) }

// has reports whether the id holds the lock.
func (s *state) has(id ident) bool { return s.holder == id || s.reads(id) }

func (s *state) addReader(id ident) {
	i := slices.Index(s.readers[:], nobody)
	if i < 0 {
		panic("maxReaders is too small")
	}
	s.readers[i] = id
}

// end ends the hold of id, if there is one. It returns what has ended if that frees the lock.
func (s *state) end(id ident) end {
	if s.holder == id {
		s.holder = nobody
		return writing
	}
	if i := slices.Index(s.readers[:], id); i >= 0 {
		copy(s.readers[i:], s.readers[i+1:])
		s.readers[maxReaders-1] = nobody
		if i == 0 && s.readers[0] == nobody {
			return reading
		}
	}
	return unknown
}

// hasLive reports whether a live ticket, of a reader or of a writer, is in the queue.
func (s *state) hasLive(reads bool) bool {
	return slices.ContainsFunc(s.queue[:], func(t ticket) bool { return t.id != nobody && t.reads == reads && !t.unseen })
}

// see notes for the tickets of the process of an id whether it was seen lately.
func (s *state) see(y *system, id ident, seen bool) {
	for i := range s.queue {
		if t := &s.queue[i]; t.id != nobody && y.areOfOne(t.id, id) {
			t.unseen = !seen
		}
	}
}

// hasTicket reports whether a ticket of process i is in the queue, of one that was or was not seen lately.
func (s *state) hasTicket(i int, unseen bool) bool {
	return slices.ContainsFunc(s.queue[:], func(t ticket) bool { return t.id != nobody && t.id.process() == i && t.unseen == unseen })
}

// hasTicketOf is hasTicket for the process of an id.
func (s *state) hasTicketOf(y *system, id ident, unseen bool) bool {
	return slices.ContainsFunc(s.queue[:], func(t ticket) bool { return t.id != nobody && y.areOfOne(t.id, id) && t.unseen == unseen })
}

// index returns where in the queue the ticket is, or -1.
func (s *state) index(id ident) int {
	return slices.IndexFunc(s.queue[:], func(t ticket) bool { return t.id == id && id != nobody })
}

// dequeue takes a ticket off the queue, if it is there.
func (s *state) dequeue(id ident) {
	if i := s.index(id); i >= 0 {
		copy(s.queue[i:], s.queue[i+1:])
		s.queue[maxTickets-1] = ticket{}
	}
	if s.queue[0].id == nobody {
		s.admit = 0
	}
}

func (s *state) isDone(id ident) bool { return s.done[id.process()]&id.bit() != 0 }

// atServer reports whether the server has the id as a hold or a ticket.
func (s *state) atServer(id ident) bool { return s.has(id) || s.index(id) >= 0 }

// post adds a command, unless the same one is on its way: two would do what one does.
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

func (s *state) publish(id ident, n news) {
	for i, p := range s.pushes {
		if p.id == nobody {
			s.pushes[i] = push{id, n}
			return
		}
	}
	panic("maxPushes is too small")
}

func (s *state) removePush(i int) {
	copy(s.pushes[i:], s.pushes[i+1:])
	s.pushes[maxPushes-1] = push{}
}
