package protocol

import (
	"math/bits"
	"slices"
)

// tidy removes everything that can no longer have an effect.
func (y *system) tidy(s *state) {
	for y.dropRefused(s) {
	}
	s.tidyHistory()
	for i := range s.done {
		for d := s.done[i]; d != 0; d &= d - 1 {
			if id := newIdent(i, bits.TrailingZeros32(d)); !y.mayBeAcquired(s, id) {
				s.done[i] &^= id.bit()
			}
		}
	}
	for j := 0; j < maxCommands && s.commands[j].verb != noVerb; {
		if c := s.commands[j]; c.verb == acquire || c.verb == renew || c.verb == release && !y.keeps(idsAreCompared) || c.served && s.kept != 0 || y.matters(s, c.id) || y.matters(s, c.had[0]) || y.matters(s, c.had[1]) {
			j++
		} else {
			s.removeCommand(j)
		}
	}
	for j := 0; j < maxPushes && s.pushes[j].id != nobody; {
		if id := s.pushes[j].id; s.process[id.process()].phase != dead && y.matters(s, id) {
			j++
		} else {
			s.removePush(j)
		}
	}
}

// filled returns how many elements of a list are in use.
func filled[E comparable](list []E) int {
	var empty E
	for i, e := range list {
		if e == empty {
			return i
		}
	}
	return len(list)
}

// tidyHistory removes what is no longer checked.
func (s *state) tidyHistory() {
	if s.isFree() {
		s.token = 0
	}
	if s.holder == nobody {
		s.stood = 0
	}
	if !s.hasWriter() {
		s.passed = 0
	}
	if !s.hasReader() {
		s.outrun = 0
	}
	for i := range s.process {
		if p := &s.process[i]; p.held != nobody && p.batch[0] == nobody {
			p.ends = false
		}
	}
	present := uint32(0)
	s.eachPlace(func(p *place) { present |= 1 << *p })
	s.served &= present
}

// dropRefused removes a late acquire that would be refused.
func (y *system) dropRefused(s *state) bool {
	for j, c := range s.commands {
		if c.verb == acquire && y.isRefused(s, c.id) && (c.predecessor == nobody || !y.matters(s, c.predecessor)) {
			s.removeCommand(j)
			return true
		}
	}
	return false
}

// mayBeAcquired reports whether an acquire of the id may still run.
func (y *system) mayBeAcquired(s *state, id ident) bool {
	p := &s.process[id.process()]
	if p.id == id && p.isUnderWay() || p.phase != dead && !y.keeps(idsAreNew) {
		return true
	}
	for _, c := range s.commands {
		if c.verb == acquire && c.id == id {
			return true
		}
	}
	return false
}

// matters reports whether the server, the process or a late command may use the id.
func (y *system) matters(s *state, id ident) bool {
	if id == nobody {
		return false
	}
	return s.process[id.process()].id == id || s.user(id) != nil || s.atServer(id) || y.mayBeAcquired(s, id)
}

// canonical replaces a tidy s by one representative of all states that differ only in the names of processes and ids, in the distances
// of tokens, and in the order of unordered things.
func (y *system) canonical(s *state) {
	y.rank(s)
	s.rankPlaces()
	s.renumber()
	for i := range s.process {
		if polls := &s.process[i].polls; compareAnswers(polls[0], polls[1]) < 0 {
			polls[0], polls[1] = polls[1], polls[0]
		}
	}
	s.sortProcesses(y.processes())
	slices.Sort(s.readers[:filled(s.readers[:])])
	slices.SortFunc(s.commands[:filled(s.commands[:])], compareCommands)
	slices.SortFunc(s.pushes[:filled(s.pushes[:])], comparePushes)
}

// rank replaces tokens by their ranks. Only the pushes that a stamp outdates matter, not its value.
func (y *system) rank(s *state) {
	for i := range s.process {
		p := &s.process[i]
		if y.keeps(tokensRise) {
			p.stamp = s.outdated(p.id, p.stamp)
			for _, a := range []*answer{&p.answer, &p.polls[0], &p.polls[1]} {
				if a.outcome == inQueue || a.outcome == asItWas {
					a.token = s.outdated(p.id, a.token)
				}
			}
		}
	}
	present := uint64(0)
	s.eachToken(func(t *token) { present |= 1 << *t })
	if y.someRead() {
		present |= 1 << s.counter // readers may receive it as their token
	}
	s.eachReserved(func(t token) { present |= 1 << t })
	present &^= 1
	s.eachToken(func(t *token) { *t = token(bits.OnesCount64(present & (2<<*t - 1))) })
	s.counter = token(bits.OnesCount64(present & (2<<s.counter - 1)))
}

// outdated returns the highest number of a push for the id that is not above the stamp.
func (s *state) outdated(id ident, stamp token) token {
	highest := token(0)
	for _, n := range s.pushes {
		if n.id == id && n.number <= stamp {
			highest = max(highest, n.number)
		}
	}
	if early := s.process[id.process()].push.number; early <= stamp {
		highest = max(highest, early)
	}
	return highest
}

func (s *state) eachToken(f func(*token)) {
	f(&s.token)
	f(&s.started)
	f(&s.written)
	for i := range s.process {
		p := &s.process[i]
		if p.phase != idle && p.phase != dead {
			f(&p.stamp)
			f(&p.push.number)
			f(&p.push.token)
			f(&p.token)
			f(&p.answer.token)
			f(&p.polls[0].token)
			f(&p.polls[1].token)
		}
	}
	for i := range s.pushes {
		f(&s.pushes[i].number)
		f(&s.pushes[i].token)
	}
}

// rankPlaces replaces places by their ranks.
func (s *state) rankPlaces() {
	present, served := uint64(0), uint32(0)
	s.eachPlace(func(p *place) { present |= 1 << *p })
	s.eachPlace(func(p *place) {
		was := *p
		*p = place(bits.OnesCount64(present & (2<<was - 1)))
		served |= s.served >> was & 1 << *p
	})
	s.served = served
}

// renumber numbers the ids of each process from 1.
func (s *state) renumber() {
	used := s.done
	s.eachIdent(func(id *ident) { used[id.process()] |= id.bit() })
	used[0] &^= 1
	gaps := false
	for i, u := range used {
		s.process[i].last = uint8(bits.OnesCount32(u))
		gaps = gaps || u>>1&(u>>1+1) != 0
	}
	if !gaps {
		return
	}
	s.eachIdent(func(id *ident) {
		if *id != nobody {
			*id = newIdent(id.process(), bits.OnesCount32(used[id.process()]&(2<<id.number()-1)))
		}
	})
	for i, done := range s.done {
		s.done[i] = 0
		for ; done != 0; done &= done - 1 {
			low := done & -done
			s.done[i] |= 1 << bits.OnesCount32(used[i]&(2*low-1))
		}
	}
}

func (s *state) eachIdent(f func(*ident)) {
	f(&s.holder)
	for i := range s.readers {
		f(&s.readers[i])
	}
	for i := range s.queue {
		f(&s.queue[i].id)
	}
	for i := range s.process {
		f(&s.process[i].id)
		f(&s.process[i].predecessor)
		f(&s.process[i].held)
		s.process[i].batch.each(f)
		s.process[i].had.each(f)
		s.process[i].push.batch.each(f)
	}
	for i := 0; i < maxCommands && s.commands[i].verb != noVerb; i++ {
		f(&s.commands[i].id)
		f(&s.commands[i].predecessor)
		s.commands[i].had.each(f)
	}
	for i := 0; i < maxPushes && s.pushes[i].id != nobody; i++ {
		f(&s.pushes[i].id)
		s.pushes[i].batch.each(f)
	}
}
