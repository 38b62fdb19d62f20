package permits

import (
	"math/bits"
	"slices"
)

const (
	most    = 3 // processes
	lease   = 2 // of a hold
	window  = 1 // to accept a grant
	waiting = 6 // how long the queue is remembered
)

// A system is the start of a search.
type system struct {
	off       rule
	processes int
	weights   [most]int8
	n         [most]int8 // each process' own n
	attempts  int8       // of the first process; the others make one
	end       int8       // nothing happens after it
	copies    int8       // how often a command may run a second time, later
	cuts      int8       // how often a script may be cut off
	quits     int8       // how often a call may give up
	reaped    int8       // how many expired permits one execution removes
	locks     int8       // how often a lock of the same key is requested
}

type phase int8

const (
	idle phase = iota
	asks       // its acquire is in flight, or the answer
	queued
	holds // it works until its deadline
)

type outcome int8

const (
	none outcome = iota
	granted
	waits
)

// An answer is the answer to an acquire in flight.
type answer struct {
	outcome outcome
	token   int8 // the token or the stamp
	slots   uint8
}

// A process wants a permit.
type process struct {
	phase    phase
	attempt  int8
	sent     int8 // when the command was sent that it waits for
	answer   answer
	stamp    int8
	acceptBy int8 // before this it may begin by a push
	renewal  int8 // when the renewal in flight was sent; 0: there is none
	deadline int8
	slots    uint8
	push     answer // the message in flight
	cancel   uint16 // ids to be cancelled
}

// A permit is a field of the hash.
type permit struct {
	end   int8 // 0: there is none
	w     int8
	slots uint8
}

// A state is everything in the model at one time.
type state struct {
	now                       int8
	copies, cuts, quits, lock int8

	proc [most]process
	late struct { // a copy of a command in flight
		kind command
		id   int8
	}

	// The server.
	hash    bool
	ttl     int8 // when the hash ends; 0: never
	permits [2 * most]permit
	used    int8
	taken   uint8 // slots
	next    int8  // no permit ends before
	queue   [2 * most]int8
	length  int8
	counter int8
	done    uint16
	locked  int8 // a lock is held until then

	wrong string
	last  [8]int8 // the last token of each slot
}

type command int8

const (
	nothing command = iota
	anAcquire
	aRelease
	aCancel
)

// Time returns the time of the state.
func (s state) Time() int { return int(s.now) }

// broken returns the promise that the state breaks.
func (s *state) broken() string {
	if s.wrong != "" {
		return s.wrong
	}
	var slots uint8
	for i := range s.proc {
		if p := &s.proc[i]; s.works(i) {
			if slots&p.slots != 0 {
				return "two permits share a slot"
			}
			slots |= p.slots
		}
	}
	for id := range int8(2 * most) {
		if (s.isLive(id) || s.isQueued(id)) && !s.isKnown(id) {
			return "a permit or ticket is left behind"
		}
	}
	return ""
}

// isKnown reports whether a call waits or holds by the id, or is going to cancel it.
func (s *state) isKnown(id int8) bool {
	p := &s.proc[owner(id)]
	return p.attempt > 0 && s.id(owner(id)) == id && p.phase != idle || p.cancel&(1<<id) != 0
}

func (s *state) works(i int) bool { return s.proc[i].phase == holds && s.now < s.proc[i].deadline }

// id returns the id of a process' present attempt.
func (s *state) id(i int) int8 { return int8(i) + most*(s.proc[i].attempt-1) }

func owner(id int8) int { return int(id) % most }

// isLive reports whether the permit exists and has not expired.
func (s *state) isLive(id int8) bool { return s.permits[id].end > s.now }

// liveWeight returns the weight of all live permits except one.
func (s *state) liveWeight(but int8) (w int8) {
	for id := range s.permits {
		if s.isLive(int8(id)) && int8(id) != but {
			w += s.permits[id].w
		}
	}
	return w
}

func (s *state) isQueued(id int8) bool {
	return slices.Contains(s.queue[:s.length], id)
}

func (s *state) removeTicket(id int8) {
	for i := int8(0); i < s.length; i++ {
		if s.queue[i] == id {
			copy(s.queue[i:], s.queue[i+1:s.length])
			s.length--
			s.queue[s.length] = 0
			return
		}
	}
}

// freeSlots returns the lowest w slots that are free below n.
func (y *system) freeSlots(s *state, w, n int8) (slots uint8) {
	for i := int8(0); i < n && int8(bits.OnesCount8(slots)) < w; i++ {
		if s.taken&(1<<i) == 0 || !y.keeps(slotsAreMapped) {
			slots |= 1 << i
		}
	}
	return slots
}
