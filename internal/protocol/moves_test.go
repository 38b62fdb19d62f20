package protocol

import "fmt"

// A move is a step from one state to the next.
type move struct {
	text string
	id   ident
	who  int
	kind moveKind
}

type moveKind uint8

const (
	sure   moveKind = iota // happens in time, if the state stays as it is
	chance                 // may happen, late, or never
	fault                  // may happen so often only
)

func (m move) String() string {
	if m.id == nobody {
		return fmt.Sprintf("%c %s", 'A'+m.who, m.text)
	}
	return fmt.Sprintf("%v %s", m.id, m.text)
}

type step struct {
	move  move
	state state
}

// An expander lists the steps from a state.
type expander struct {
	*system
	from  *state
	steps []step
}

func (e *expander) expand(s *state) []step {
	e.from, e.steps = s, e.steps[:0]
	for i := range e.processes {
		e.calls(i)
		e.polling(i)
		e.renewals(i)
		e.mishaps(i)
	}
	e.arrivals()
	e.server()
	return e.steps
}

// can adds a step: a copy of the state, changed by f.
func (e *expander) can(m move, f func(s *state)) {
	e.steps = append(e.steps, step{m, *e.from})
	f(&e.steps[len(e.steps)-1].state)
}

// calls is how a process takes the lock and lets it go.
func (e *expander) calls(i int) {
	switch p := &e.from.process[i]; {
	case p.phase == idle && p.left > 0:
		for _, wait := range []bool{true, false} {
			if wait || e.tries {
				e.can(move{text: asks[wait], who: i}, func(s *state) {
					s.process[i].left--
					e.ask(s, i, wait, nobody, false, false)
				})
			}
		}
	case p.isUnderWay():
		e.can(move{text: "acquire runs", id: p.id}, func(s *state) {
			s.process[i].answer = e.runAcquire(s, p.request())
		})
	case p.phase == asking:
		e.can(move{text: "acquire is answered", id: p.id}, func(s *state) { e.answered(s, i) })
	case p.phase == holding:
		e.ending(i)
	case p.phase == lapsed:
		e.can(move{text: "is seen to have run out", id: p.id}, func(s *state) { e.lose(s, i) })
	case p.phase == releasing:
		e.can(move{text: "release runs and is answered", id: p.id}, func(s *state) {
			if !e.runRelease(s, e.freeing(p)) && p.twice && e.keeps(vainIsUndone) {
				e.undo(s, p.id, e.keeps(lossMarks))
			}
			s.process[i].leave()
		})
	}
}

var asks = map[bool]string{true: "asks, and would wait", false: "tries"}

// ending is how a process lets its hold go.
func (e *expander) ending(i int) {
	p := &e.from.process[i]
	e.can(move{text: "is to be released", id: p.id}, func(s *state) {
		q := &s.process[i]
		*q = process{phase: releasing, left: q.left, last: q.last, id: q.id, twice: q.twice}
	})
	if p.left > 0 {
		e.can(move{text: "is to be handed over", id: p.id}, func(s *state) {
			s.process[i].left--
			e.ask(s, i, true, p.id, false, p.twice && e.keeps(handOverMarks))
		})
	}
}

// polling is rule 7. A poll reaches the server at the moment in which it is sent; what a late one does
// besides is in server.
func (e *expander) polling(i int) {
	p := &e.from.process[i]
	if p.phase != queued || !e.keeps(polls) {
		return
	}
	for slot := range e.polls { // it may be that another answer got lost there
		e.can(move{text: "poll runs", id: p.id}, func(s *state) {
			s.process[i].polls[slot] = e.runPoll(s, p.id)
		})
	}
	for slot, a := range p.polls {
		if a.kind != none {
			e.can(move{text: "poll is answered", id: p.id}, func(s *state) {
				s.process[i].polls[slot] = answer{}
				e.polled(s, i, a)
			})
		}
	}
}

// renewals is rule 13.
func (e *expander) renewals(i int) {
	p := &e.from.process[i]
	if p.phase != holding && p.phase != lapsed {
		return
	}
	e.can(move{text: "renewal runs", id: p.id}, func(s *state) {
		s.process[i].renewal = e.runRenew(s, p.id)
	})
	if p.renewal.kind != none {
		e.can(move{text: "renewal is answered", id: p.id}, func(s *state) { e.renewed(s, i) })
	}
}

// mishaps is what may go wrong with a process and its connections.
func (e *expander) mishaps(i int) {
	p, left := &e.from.process[i], e.from.faults
	if p.phase == dead {
		return
	}
	if left.replays > 0 && p.isUnderWay() {
		e.can(move{"acquire is written again", p.id, i, fault}, func(s *state) {
			s.faults.replays--
			s.process[i].twice = true
			e.goesAstray(s, p.request())
		})
	}
	if left.replays > 0 && p.phase == releasing {
		e.can(move{"release is written again", p.id, i, fault}, func(s *state) {
			s.faults.replays--
			e.goesAstray(s, e.freeing(p))
		})
	}
	if left.cancels > 0 && (p.phase == asking || p.phase == queued || p.phase == releasing) {
		e.can(move{"is given up", p.id, i, fault}, func(s *state) {
			s.faults.cancels--
			e.giveUp(s, i)
		})
	}
	if left.delays > 0 && p.phase == holding {
		e.can(move{"runs out at its deadline", p.id, i, fault}, func(s *state) {
			s.faults.delays--
			s.process[i].phase = lapsed
		})
	}
	if left.deaths > 0 && p.phase != idle {
		e.can(move{"dies", nobody, i, fault}, func(s *state) {
			s.faults.deaths--
			e.die(s, i)
		})
	}
}

// goesAstray leaves a copy of a command on a connection that is given up.
func (e *expander) goesAstray(s *state, c command) {
	c.stray = true
	s.post(c)
}
