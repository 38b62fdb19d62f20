package protocol

import (
	"fmt"
	"strings"
)

// twoHolders is a breach of ME: two processes hold the lock by the promise.
func twoHolders(s *state) string {
	n := 0
	for i := range s.process {
		if s.process[i].phase == holding {
			n++
		}
	}
	if n > 1 {
		return "two hold the lock"
	}
	return ""
}

// oldToken is a breach of F: a hold starts with a token that is not above all of those before, or
// comes back to life when a later one has started.
func oldToken(s *state) string {
	if s.disorder {
		return "a hold has started with an old token"
	}
	for i := range s.process {
		if p := &s.process[i]; p.phase == holding && p.token < s.started {
			return "a hold goes on after a later one has started"
		}
	}
	return ""
}

// ghost is what the server has of a process that lives and does not know of it, so that only time can
// end it: nothing that is sure to come will. Cancels are, as they are repeated until they are
// confirmed; copies that got stuck and pushes are not.
func ghost(s *state) string {
	if s.holder != nobody && s.isGhost(s.holder) {
		return fmt.Sprint("nobody will release ", s.holder)
	}
	for _, t := range s.queue {
		if t.id != nobody && s.isGhost(t.id) {
			return fmt.Sprint("nobody will take off the queue ", t.id)
		}
	}
	return ""
}

func (s *state) isGhost(id ident) bool {
	p := &s.process[id.process()]
	if p.phase == dead || p.id == id || p.isUnderWay() && p.former == id {
		return false
	}
	for _, c := range s.commands {
		if c.verb == cancel && !c.stray && c.id == id {
			return false
		}
	}
	return true
}

// isOver says whether all calls have ended and the lock is free. Tickets of the dead may be left: the
// queue expires when nobody comes any more.
func (s *state) isOver() bool {
	for i := range s.process {
		if p := &s.process[i]; p.phase != dead && (p.phase != idle || p.left > 0) {
			return false
		}
	}
	for _, t := range s.queue {
		if t.id != nobody && s.process[t.id.process()].phase != dead {
			return false
		}
	}
	return s.holder == nobody
}

func (i ident) String() string { return fmt.Sprintf("%c%d", 'a'+i.process(), i.number()) }

func (s *state) String() string {
	parts := []string{"free"}
	if s.holder != nobody {
		parts[0] = fmt.Sprintf("%v has it, token %d", s.holder, s.token)
	}
	for i, t := range s.queue {
		if t.id != nobody {
			parts = append(parts, fmt.Sprintf("%d. %v", i+1, t.id))
		}
	}
	for i := range s.process {
		switch p := &s.process[i]; p.phase {
		case queued:
			parts = append(parts, fmt.Sprintf("%v waits, stamp %d", p.id, p.stamp))
		case holding:
			parts = append(parts, fmt.Sprintf("%v HOLDS, token %d", p.id, p.token))
		}
	}
	return strings.Join(parts, "; ")
}
