package together

import "slices"

const (
	maxCalls = 3
	keys     = 2
)

// A system is a few calls, each of a different process.
type system struct {
	off    rule
	wants  []want
	faults faults
}

// A want is the set of keys that a call takes.
type want [keys]bool

var (
	both   = want{true, true}
	first  = want{true, false}
	second = want{false, true}
)

// faults limits how often each fault may still happen.
type faults struct {
	copies   int8 // multi-acquires that are written twice
	silences int8 // lost answers to multi-acquires, which the calls then give up
	cuts     int8 // scripts that end with an error after one of their writes
}

// An ident is the number of the ids of a multi-acquire, one for each key, or of a later acquire; 0: none. Each call has at most
// one of each.
type ident int8

func multiID(i int) ident      { return ident(2*i + 1) }
func singleID(i int) ident     { return ident(2*i + 2) }
func (n ident) call() int      { return int(n-1) / 2 }
func (n ident) bit() (b uint8) { return 1 << n }

type phase int8

const (
	idle    phase = iota
	asked         // a multi-acquire has run or is lost, and the call does not know its outcome
	orderly       // the call takes one lock after the other
	waits         // for one of them
	runs          // with all its locks
	over
)

type answer int8

const (
	none answer = iota
	granted
	refused
	cut // an error
)

type call struct {
	phase  phase
	answer answer
	copied bool        // its multi-acquire was written twice
	late   bool        // a copy of its multi-acquire is in flight
	has    [keys]ident // the ids of the locks that it knows it holds
	cancel [keys]bool  // a cancel of its multi-acquire is in flight
}

// A lock is what the server knows about a key.
type lock struct {
	holder ident
	token  int8 // the last
	queue  [maxCalls]ident
	done   uint8 // a bit for each id
}

// A state is everything in the model at one time.
type state struct {
	faults  faults
	counter int8
	call    [maxCalls]call
	lock    [keys]lock
	broken  promise // what the last move has broken
}

// A promise must never break.
type promise string

const (
	exclusion promise = "exclusion"
	whole     promise = "whole"
	tokens    promise = "tokens"
	noGhost   promise = "no ghost"
	notStuck  promise = "stuck"
)

// Time returns 0: there is no clock.
func (s state) Time() int { return 0 }

// check returns the promise that the state breaks.
func (y *system) check(s *state) promise {
	if s.broken != "" {
		return s.broken
	}
	for k := range s.lock {
		having := 0
		for i := range y.wants {
			if s.call[i].has[k] != 0 {
				having++
			}
		}
		if having > 1 {
			return exclusion
		}
		if h := s.lock[k].holder; h != 0 && !s.accounts(h, k) {
			return noGhost
		}
	}
	for i, c := range s.call[:len(y.wants)] {
		for k := range keys {
			if c.phase == runs && y.wants[i][k] && c.has[k] == 0 {
				return whole
			}
		}
	}
	isNoFault := func(m move) bool { return !m.Fault }
	if !s.isOver(y) && !slices.ContainsFunc(y.moves(s), isNoFault) {
		return notStuck
	}
	return ""
}

// accounts reports whether a call knows of a hold, or will learn of it.
func (s *state) accounts(h ident, k int) bool {
	c := s.call[h.call()]
	return c.has[k] == h || h == multiID(h.call()) && (c.phase == asked || c.cancel[k])
}

func (s *state) isOver(y *system) bool {
	for _, c := range s.call[:len(y.wants)] {
		if c.phase != over {
			return false
		}
	}
	return true
}

// grant makes id the holder of key k.
func (s *state) grant(id ident, k int, token int8) {
	l := &s.lock[k]
	if token <= l.token {
		s.broken = tokens
	}
	l.holder, l.token = id, token
}

// end ends the hold of id, and grants the lock to the next call in the queue.
func (s *state) end(id ident, k int) {
	l := &s.lock[k]
	if l.holder != id {
		return
	}
	l.holder = 0
	next := l.queue[0]
	if next == 0 {
		return
	}
	copy(l.queue[:], l.queue[1:])
	l.queue[maxCalls-1] = 0
	s.counter++
	s.grant(next, k, s.counter)
	c := &s.call[next.call()]
	c.has[k], c.phase = next, orderly
}

func (l *lock) enqueue(id ident) {
	for i := range l.queue {
		if l.queue[i] == 0 {
			l.queue[i] = id
			return
		}
	}
	panic("the queue is too short")
}
