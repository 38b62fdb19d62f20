package protocol

import (
	"fmt"
	"math"
	"slices"

	"github.com/lockmw/go/internal/test/states"
)

// space is everything that can happen in y.
func (y *system) space() states.Space[state, move] {
	p := states.Space[state, move]{
		First: y.start(), Moves: (&expander{system: y}).expand,
		Tidy: y.tidy, Canonical: y.canonical, Over: (*state).isOver,
		Sure: func(m move) bool { return m.kind == sure },
		Line: func(m move, _, to *state) string { return fmt.Sprintf("%-47v %v", m, to) },
	}
	if *contenders != "" {
		p.Most = math.MaxInt
	}
	return p
}

// A move is a step from one state to the next.
type move struct {
	text string
	id   ident
	who  int
	kind moveKind
}

type moveKind uint8

const (
	sure   moveKind = iota // happens eventually, if the state stays as it is
	chance                 // may happen, late, or never
	fault                  // may happen a limited number of times
)

func (m move) String() string {
	if m.id == nobody {
		return fmt.Sprintf("%c %s", 'A'+m.who, m.text)
	}
	return fmt.Sprintf("%v %s", m.id, m.text)
}

type step = states.Step[state, move]

// An expander lists the steps from a state.
type expander struct {
	*system
	from  *state
	steps []step
}

func (e *expander) expand(s *state) []step {
	e.from, e.steps = s, e.steps[:0]
	for i := range e.processes() {
		e.calls(i)
		e.polling(i)
		e.renewals(i)
		e.mishaps(i)
		e.takingOff(i)
	}
	e.arrivals()
	e.server()
	return e.steps
}

// can adds a step to a copy of the state, changed by f.
func (e *expander) can(m move, f func(s *state)) {
	e.steps = append(e.steps, step{Move: m, To: *e.from})
	f(&e.steps[len(e.steps)-1].To)
}

// cutOff adds the ways in which a script may end after one of its writes, without an answer.
func (e *expander) cutOff(m move, run func(s *state)) {
	if e.from.faults.cuts == 0 {
		return
	}
	s := *e.from
	e.cutting, e.cuts = true, e.cuts[:0]
	run(&s)
	e.cutting = false
	for i, c := range e.cuts {
		c.faults.cuts--
		e.can(move{fmt.Sprintf("%s, and ends after write %d", m.text, i+1), m.id, m.who, fault}, func(s *state) { *s = c })
	}
}

// calls adds how a process takes the lock and releases it.
func (e *expander) calls(i int) {
	switch p := &e.from.process[i]; {
	case p.phase == idle && p.left > 0:
		e.requests(i)
	case p.isUnderWay():
		e.acquires(p.sent(), func(s *state, c command) { s.process[i].answer = e.runAcquire(s, c) })
		e.cutOff(move{text: "acquire runs", id: p.id}, func(s *state) { e.runAcquire(s, p.sent()) })
	case p.phase == requesting:
		e.can(move{text: "acquire is answered", id: p.id}, func(s *state) { e.answered(s, i) })
	case p.phase == holding:
		e.ending(i)
	case p.phase == lapsed:
		if !e.keeps(lapsedIsKept) {
			e.passes(i)
		}
		e.can(move{text: "notices that its deadline has passed", id: p.id}, func(s *state) { e.lose(s, i) })
	case p.phase == releasing:
		e.can(move{text: "release runs and is answered", id: p.id}, func(s *state) {
			if had := e.had(p, vainEndsBatch); !e.runRelease(s, e.sentRelease(p)) && (p.copied || had[0] != nobody) && e.keeps(vainIsUndone) {
				s.post(command{verb: cancel, id: p.held, mark: p.copied && e.keeps(lossMarks), had: had})
			}
			s.process[i].becomeIdle()
		})
		e.cutOff(move{text: "release runs", id: p.id}, func(s *state) { e.runRelease(s, e.sentRelease(p)) })
	}
}

// requests adds how a call begins.
func (e *expander) requests(i int) {
	p := &e.from.process[i]
	for _, reads := range []bool{false, true} {
		if reads && !p.is(reader) || !reads && !p.is(writes) {
			continue
		}
		for _, wait := range []bool{true, false} {
			if wait || e.tries {
				e.can(move{text: calls[wait] + whatFor[reads], who: i}, func(s *state) {
					s.process[i].left--
					e.request(s, i, reads, wait, nobody, false, false)
				})
			}
		}
	}
}

var (
	calls   = map[bool]string{true: "calls Lock", false: "calls TryLock"}
	whatFor = map[bool]string{true: " to read", false: " to write"}
)

// acquires adds an execution of acquire. If another ticket has the same place, either may be in front.
func (e *expander) acquires(c command, f func(s *state, c command)) {
	m := move{text: "acquire runs", id: c.id}
	if c.stray {
		m.text, m.kind = "a late copy of acquire runs", chance
	}
	e.can(m, func(s *state) { f(s, c) })
	shared := func(t ticket) bool { return t.id != nobody && t.place == e.from.kept }
	if c.keeps && c.wait && slices.ContainsFunc(e.from.queue[:], shared) {
		c.front = true
		m.text += " and gets in front"
		e.can(m, func(s *state) { f(s, c) })
	}
}

// ending adds how a process ends its hold, or lets others also read.
func (e *expander) ending(i int) {
	p := &e.from.process[i]
	if p.downgrading {
		e.can(move{text: "downgrade runs and is answered", id: p.id}, func(s *state) {
			e.downgraded(s, i, e.runDowngrade(s, p.id))
		})
		e.cutOff(move{text: "downgrade runs", id: p.id}, func(s *state) { e.runDowngrade(s, p.id) })
		return
	}
	e.can(move{text: "is to be released", id: p.id}, func(s *state) {
		q := &s.process[i]
		*q = process{
			role: q.role, phase: releasing, left: q.left, last: q.last, id: q.id, copied: q.copied, held: q.held, had: q.had,
			stood: q.stood, since: q.since,
		}
	})
	e.passes(i)
	if p.left > 0 && p.is(handsOver) {
		e.can(move{text: "is to be handed over", id: p.id}, func(s *state) {
			s.process[i].left--
			e.request(s, i, false, true, p.id, false, p.copied && e.keeps(handOverMarks))
		})
	}
	if p.is(downgrades) && !p.reads {
		e.can(move{text: "is to be downgraded", id: p.id}, func(s *state) { e.startDowngrade(&s.process[i]) })
	}
}

// polling is rule 7. A poll reaches the server when it is sent; server adds the effect of a late one.
func (e *expander) polling(i int) {
	p := &e.from.process[i]
	if p.phase != queued || !e.keeps(polls) {
		return
	}
	for slot := range e.polls { // another answer may have been lost there
		e.can(move{text: "poll runs", id: p.id}, func(s *state) {
			s.process[i].polls[slot] = e.runPoll(s, p.id)
		})
		if a := e.runPeek(e.from, p.id); e.peeks && a.outcome != none {
			e.can(move{text: "peek runs", id: p.id}, func(s *state) { s.process[i].polls[slot] = a })
		}
	}
	e.cutOff(move{text: "poll runs", id: p.id}, func(s *state) { e.runPoll(s, p.id) })
	for slot, a := range p.polls {
		if a.outcome != none {
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
		s.process[i].renewal = e.runRenew(s, p.held)
	})
	if p.renewal.outcome != none {
		e.can(move{text: "renewal is answered", id: p.id}, func(s *state) { e.renewed(s, i) })
	}
}

// mishaps adds what may go wrong with a process and its connections.
func (e *expander) mishaps(i int) {
	p, left := &e.from.process[i], e.from.faults
	if p.phase == dead {
		return
	}
	if left.replays > 0 {
		e.copies(i)
	}
	if left.cancels > 0 && (p.phase == requesting || p.phase == queued || p.phase == releasing) {
		e.can(move{"is given up", p.id, i, fault}, func(s *state) {
			s.faults.cancels--
			e.giveUp(s, i)
		})
	}
	if left.cancels > 0 && p.phase == holding && p.downgrading {
		e.can(move{"downgrade is given up", p.id, i, fault}, func(s *state) {
			s.faults.cancels--
			s.process[i].downgrading = false
			e.goesAstray(s, p.sentDowngrade())
		})
	}
	if left.delays > 0 && p.phase == holding {
		e.can(move{"reaches its deadline", p.id, i, fault}, func(s *state) {
			s.faults.delays--
			s.process[i].phase = lapsed
		})
	}
	if left.deaths > 0 && p.phase != idle {
		e.can(move{"dies", nobody, i, fault}, func(s *state) {
			s.faults.deaths--
			for _, j := range e.alive(s, i) {
				e.die(s, j)
			}
		})
	}
}

// copies adds which commands may be written more than once.
func (e *expander) copies(i int) {
	p := &e.from.process[i]
	written := func(what string, c command) {
		e.can(move{what + " is written again", p.id, i, fault}, func(s *state) {
			s.faults.replays--
			s.process[i].copied = p.copied || c.verb == acquire
			e.goesAstray(s, c)
		})
	}
	switch {
	case p.isUnderWay():
		written("acquire", p.sent())
	case p.phase == releasing:
		written("release", e.sentRelease(p))
	case p.phase == holding && p.downgrading:
		written("downgrade", p.sentDowngrade())
	case p.phase == holding && !e.keeps(renewalsTouch): // otherwise a copy has no effect
		written("renewal", command{verb: renew, id: p.held})
	}
}
