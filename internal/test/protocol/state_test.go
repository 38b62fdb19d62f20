package protocol

import "slices"

// An ident is the id of a ticket, and of its hold. The upper bits are its process.
type ident uint8

const (
	nobody    = 0
	serial    = 5 // low bits of an ident: its number in its process
	maxSerial = 1<<serial - 1
)

func newIdent(p, n int) ident { return ident(p<<serial | n) }
func (i ident) process() int  { return int(i) >> serial }
func (i ident) number() int   { return int(i) & maxSerial }
func (i ident) bit() uint32   { return 1 << i.number() }

// A token is a fencing token, or a number from the same counter. Only the order of tokens matters: states are compared with the
// ranks of their tokens.
type token uint8

// A place is the position of a ticket in the queue, before those with higher places. States are compared with the ranks of
// their places.
type place uint8

// A ticket is an entry of the queue.
type ticket struct {
	id      ident
	place   place
	reads   bool
	keeps   bool // its place outlives it
	batches bool // it may be in a grant batch
	unseen  bool // its process was not seen for so long that it counts as dead
}

// A command is on its way to the server.
type command struct {
	verb        verb
	id          ident
	predecessor ident
	reads       bool
	lost        bool
	mark        bool // the id that ends gets a done mark
	wait        bool
	keeps       bool   // the place in the queue outlives the ticket
	batches     bool   // the ticket may be in a grant batch
	had         idents // calls to which the lease that ends was passed
	served      bool   // the place is no longer needed
	stood       place  // the kept place of the hold that ends
	since       place  // no place up to this one is newer than the hold
	stray       bool   // it is not repeated: it runs once, late, or never
	front       bool   // it precedes a ticket with the same place
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

// A push is the message of a grant. It may be in flight for any time.
type push struct {
	id ident
	news
}

// News is the content of a push: the number is compared with the stamp, the token belongs to the hold.
type news struct {
	number, token token
	batch         idents
}

const (
	maxProcesses = 3
	maxReaders   = 6
	maxTickets   = 8
	maxCommands  = 10
	maxPushes    = 10
	maxBatch     = 2 // behind the head
)

// Idents are members of a grant batch, in the order of the queue.
type idents [maxBatch]ident

func (l idents) has(id ident) bool { return slices.Contains(l[:], id) }

// with returns l with one more id.
func (l idents) with(id ident) idents {
	l[slices.Index(l[:], nobody)] = id
	return l
}

// A state is everything that decides what may happen next. Lists are filled from the left and end with the first zero element.
type state struct {
	// The server.
	holder   ident // of the hold that excludes all others
	readers  [maxReaders]ident
	token    token // the holder's, or that of the readers' phase
	waiting  bool  // the holder's grant is not accepted yet; used only if nothing else ends it
	ended    end   // what held the free lock before, if a script can still see that
	counter  token // fencing counter
	queue    [maxTickets]ticket
	admit    place                // readers up to this place are admitted although a writer waits
	kept     place                // the kept place that all processes share
	done     [maxProcesses]uint32 // by process, a bit for each number
	commands [maxCommands]command
	pushes   [maxPushes]push
	process  [maxProcesses]process
	faults   faults // that may still happen

	history
}

// History is needed by the checks, not by the protocol.
type history struct {
	started token  // the highest token that a hold has started with
	written token  // the highest token that a write hold has started with
	stood   place  // the kept place of the holder
	served  uint32 // places whose ticket was granted and released: a bit for each
	passed  uint8  // phases of readers in a row that began, or grew, while a writer waited
	outrun  uint8  // grants in a row to writers while a reader waited
	wrongs  wrong
}

// An end is what ended when the lock became free.
type end uint8

const (
	unknown end = iota
	reading
	writing
)

// Faults limits how often each fault may happen.
type faults struct {
	replays uint8 // a command is written again, and both copies arrive
	delays  uint8 // a live process is too slow for its lease, its accept window or its polls
	cancels uint8 // a call ends by its context or by a failed connection
	deaths  uint8 // of processes
	cuts    uint8 // a script ends after one of its writes
	losses  uint8 // the server forgets a hold too early

	forgeries uint8 // a message is repeated or forged
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

// see records whether the process of an id was seen recently.
func (s *state) see(y *system, id ident, seen bool) {
	for i := range s.queue {
		if t := &s.queue[i]; t.id != nobody && y.areOfOne(t.id, id) {
			t.unseen = !seen
		}
	}
}

// hasTicket reports whether the queue has a ticket of process i that was seen recently, or one that was not.
func (s *state) hasTicket(i int, unseen bool) bool {
	return slices.ContainsFunc(s.queue[:], func(t ticket) bool { return t.id != nobody && t.id.process() == i && t.unseen == unseen })
}

// hasTicketOf is hasTicket for the process of an id.
func (s *state) hasTicketOf(y *system, id ident, unseen bool) bool {
	return slices.ContainsFunc(s.queue[:], func(t ticket) bool { return t.id != nobody && y.areOfOne(t.id, id) && t.unseen == unseen })
}

// index returns the position of the ticket in the queue, or -1.
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

// atServer reports whether the server has a hold or a ticket of the id.
func (s *state) atServer(id ident) bool { return s.has(id) || s.index(id) >= 0 }

// post adds a command, unless the same one is in flight: two would have the effect of one.
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
