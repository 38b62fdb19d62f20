package protocol

import (
	"fmt"
	"slices"
	"strings"
)

// A promise must hold in every state. It returns its breach, "" if there is none.
type promise func(*system, *state) string

var promises = map[string]promise{
	"ME":       twoHolders,
	"F":        oldToken,
	"no ghost": ghost,
	"fairness": isWrong(unfair | idling),
	"turns":    starved,
	"leases":   isWrong(shortened),
	"places":   isWrong(usedTwice),
	"order":    isWrong(sentBack | overtaken),
	"live":     isWrong(givenUp),
}

// stuck is a promise about all states together.
const stuck = "nobody is stuck"

func allWell(y *system, s *state) string {
	return twoHolders(y, s) + oldToken(y, s) + ghost(y, s) + isWrong(^disorder)(y, s) + starved(y, s)
}

func isWrong(some wrong) promise {
	return func(_ *system, s *state) string { return (s.wrongs & some).String() }
}

// twoHolders is a breach of ME: two processes hold the lock, and not both to read.
func twoHolders(_ *system, s *state) string {
	holders, writers := 0, 0
	for i := range s.process {
		p := &s.process[i]
		if p.phase == holding && p.forgotten && !s.isSucceeded(p) {
			continue // it cannot know yet that another process holds the lock
		}
		if p.phase == holding {
			holders++
			if !p.reads {
				writers++
			}
		}
	}
	if holders > 1 && writers > 0 {
		return "a process writes, and another one holds the lock"
	}
	return ""
}

// oldToken is a breach of F: a write hold starts with a token that is not above all earlier ones, or a
// read hold with a token below that of the last write; or such a hold continues after a later one has
// started.
func oldToken(_ *system, s *state) string {
	if s.wrongs&disorder != 0 {
		return disorder.String()
	}
	for i := range s.process {
		p := &s.process[i]
		if p.phase == holding && !p.forgotten && (p.token < s.written || p.token < s.started && !p.reads) {
			return "a hold continues after a later one has started"
		}
	}
	return ""
}

// starved is a breach of rule 12: while a ticket waited, the other side had more turns than the faults
// explain.
func starved(y *system, s *state) string {
	most := 1 + y.faults.sum() - s.faults.sum()
	switch {
	case s.passed > most:
		return fmt.Sprintf("%d phases of readers went before a writer", s.passed)
	case s.outrun > most:
		return fmt.Sprintf("%d writers went before a reader", s.outrun)
	}
	return ""
}

// ghost is a hold or ticket on the server whose process lives and does not know of it. Only time would end
// it, unless a cancel is in flight. Cancels are sure to arrive, because they are repeated until they are
// confirmed; late copies and pushes are not.
func ghost(_ *system, s *state) string {
	for _, id := range append(s.readers[:], s.holder) {
		if id != nobody && s.isGhost(id) {
			return fmt.Sprint("no call will release ", id)
		}
	}
	for _, t := range s.queue {
		if t.id != nobody && s.isGhost(t.id) {
			return fmt.Sprint("no call will take off the queue ", t.id)
		}
	}
	return ""
}

func (s *state) isGhost(id ident) bool {
	p := &s.process[id.process()]
	if p.phase == dead || s.user(id) != nil || p.isUnderWay() && p.predecessor == id {
		return false
	}
	for i := range s.process {
		if s.process[i].had.has(id) {
			return false
		}
	}
	for _, c := range s.commands {
		if c.verb == cancel && !c.stray && (c.id == id || c.had.has(id)) {
			return false
		}
	}
	return true
}

// isOver reports whether all calls have ended and the lock is free. Tickets of dead processes may be left:
// the queue expires when no process uses it.
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
	return s.isFree()
}

func (i ident) String() string { return fmt.Sprintf("%c%d", 'a'+i.process(), i.number()) }

func (s *state) String() string {
	parts := []string{"free"}
	if s.holder != nobody {
		parts[0] = fmt.Sprintf("held by %v, token %d", s.holder, s.token)
	} else if s.isRead() {
		parts[0] = fmt.Sprintf("%v read, token %d", slices.DeleteFunc(s.readers[:], func(i ident) bool { return i == nobody }), s.token)
	}
	for i, t := range s.queue {
		if t.id != nobody {
			parts = append(parts, fmt.Sprintf("%d. %v", i+1, t.id))
			if t.reads {
				parts[i+1] += " to read"
			}
		}
	}
	for i := range s.process {
		switch p := &s.process[i]; {
		case p.phase == queued:
			parts = append(parts, fmt.Sprintf("%v waits, stamp %d", p.id, p.stamp))
		case p.phase == holding && p.reads:
			parts = append(parts, fmt.Sprintf("%v READS, token %d", p.id, p.token))
		case p.phase == holding:
			parts = append(parts, fmt.Sprintf("%v HOLDS, token %d", p.id, p.token))
		}
	}
	return strings.Join(parts, "; ")
}
