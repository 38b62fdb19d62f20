package protocol

import (
	"cmp"
	"hash/maphash"
	"math/bits"
	"slices"
)

// tidy takes away what cannot have an effect any more.
func (y *system) tidy(s *state) {
	for y.dropHopeless(s) {
	}
	for i := range s.done {
		for d := s.done[i]; d != 0; d &= d - 1 {
			if id := newIdent(i, bits.TrailingZeros32(d)); !y.mayBeAsked(s, id) {
				s.done[i] &^= id.bit()
			}
		}
	}
	for j := 0; j < maxCommands && s.commands[j].verb != noVerb; {
		if c := s.commands[j]; c.verb == acquire || c.verb == release && !y.keeps(idsAreCompared) || y.matters(s, c.id) {
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

// dropHopeless takes away a late acquire that would be refused.
func (y *system) dropHopeless(s *state) bool {
	for j, c := range s.commands {
		if c.verb == acquire && y.isRefused(s, c.id) && (c.former == nobody || !y.matters(s, c.former)) {
			s.removeCommand(j)
			return true
		}
	}
	return false
}

// mayBeAsked says whether an acquire of the id may still run.
func (y *system) mayBeAsked(s *state, id ident) bool {
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

// matters says whether the server, the process or a late command may do something with the id.
func (y *system) matters(s *state, id ident) bool {
	return s.process[id.process()].id == id || s.atServer(id) || y.mayBeAsked(s, id)
}

// canonical replaces s by the one state that stands for all that differ only in the names of
// processes and ids, in the distance of tokens, and in the order of what has no order.
func (y *system) canonical(s *state) {
	y.tidy(s)
	y.rank(s)
	s.renumber()
	for i := range s.process {
		if polls := &s.process[i].polls; compareAnswers(polls[0], polls[1]) < 0 {
			polls[0], polls[1] = polls[1], polls[0]
		}
	}
	s.sortProcesses(y.processes)
	slices.SortFunc(s.commands[:], compareCommands)
	slices.SortFunc(s.pushes[:], comparePushes)
}

// rank replaces tokens by their ranks. Of a stamp only counts which pushes it outdates.
func (y *system) rank(s *state) {
	for i := range s.process {
		p := &s.process[i]
		if y.keeps(tokensRise) {
			p.stamp = s.outdated(p.id, p.stamp)
			for _, a := range []*answer{&p.answer, &p.polls[0], &p.polls[1]} {
				if a.kind == inQueue {
					a.token = s.outdated(p.id, a.token)
				}
			}
		}
	}
	if s.holder == nobody {
		s.token = 0
	}
	present := uint64(0)
	s.eachToken(func(t *token) { present |= 1 << *t })
	present &^= 1
	s.eachToken(func(t *token) { *t = token(bits.OnesCount64(present & (2<<*t - 1))) })
	s.counter = token(bits.OnesCount64(present))
}

// outdated is the highest token of a push for the id that is not above the stamp.
func (s *state) outdated(id ident, stamp token) token {
	highest := token(0)
	for _, n := range s.pushes {
		if n.id == id && n.token <= stamp {
			highest = max(highest, n.token)
		}
	}
	if early := s.process[id.process()].push; early <= stamp {
		highest = max(highest, early)
	}
	return highest
}

func (s *state) eachToken(f func(*token)) {
	f(&s.token)
	f(&s.started)
	for i := range s.process {
		p := &s.process[i]
		if p.phase != idle && p.phase != dead {
			f(&p.stamp)
			f(&p.push)
			f(&p.token)
			f(&p.answer.token)
			f(&p.polls[0].token)
			f(&p.polls[1].token)
		}
	}
	for i := range s.pushes {
		f(&s.pushes[i].token)
	}
}

// renumber counts the ids of each process from 1 on.
func (s *state) renumber() {
	used := s.done
	s.eachIdent(func(id *ident) { used[id.process()] |= id.bit() })
	used[0] &^= 1
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
		s.process[i].last = uint8(bits.OnesCount32(used[i]))
	}
}

func (s *state) eachIdent(f func(*ident)) {
	f(&s.holder)
	for i := range s.queue {
		f(&s.queue[i].id)
	}
	for i := range s.process {
		f(&s.process[i].id)
		f(&s.process[i].former)
	}
	for i := range s.commands {
		f(&s.commands[i].id)
		f(&s.commands[i].former)
	}
	for i := range s.pushes {
		f(&s.pushes[i].id)
	}
}

// sortProcesses orders the processes by all there is about each.
func (s *state) sortProcesses(n int) {
	var views [maxProcesses]uint64
	order := [maxProcesses]int{0, 1, 2}
	for i := range n {
		views[i] = s.view(i)
	}
	slices.SortFunc(order[:n], func(i, j int) int { return cmp.Compare(views[i], views[j]) })
	if order == [maxProcesses]int{0, 1, 2} {
		return
	}
	process, done := s.process, s.done
	var to [maxProcesses]int
	for i, from := range order {
		s.process[i], s.done[i] = process[from], done[from]
		to[from] = i
	}
	s.eachIdent(func(id *ident) {
		if *id != nobody {
			*id = newIdent(to[id.process()], id.number())
		}
	})
}

var viewSeed = maphash.MakeSeed()

// view is a hash of what there is about process i, whichever number it has.
func (s *state) view(i int) uint64 {
	v := struct {
		process process
		holder  int
		queue   [maxTickets]int
		done    uint32
		rest    uint64
	}{process: s.process[i], done: s.done[i]}
	own := func(id ident) (number int) {
		if id.process() == i {
			number = id.number()
		}
		return number
	}
	v.process.id, v.process.former = ident(v.process.id.number()), ident(v.process.former.number())
	v.holder = own(s.holder)
	for j, t := range s.queue {
		v.queue[j] = own(t.id)
	}
	for _, c := range s.commands {
		if own(c.id) != 0 {
			c.id, c.former = ident(c.id.number()), ident(c.former.number())
			v.rest += maphash.Comparable(viewSeed, c)
		}
	}
	for _, n := range s.pushes {
		if own(n.id) != 0 {
			n.id = ident(n.id.number())
			v.rest += maphash.Comparable(viewSeed, n)
		}
	}
	return maphash.Comparable(viewSeed, v)
}

func compareAnswers(a, b answer) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.token, b.token), compareBools(a.good, b.good))
}

// compareCommands and comparePushes put what is empty last.
func compareCommands(a, b command) int {
	return cmp.Or(
		cmp.Compare(b.verb, a.verb), cmp.Compare(a.id, b.id), cmp.Compare(a.former, b.former),
		compareBools(a.lost, b.lost), compareBools(a.mark, b.mark), compareBools(a.wait, b.wait), compareBools(a.stray, b.stray),
	)
}

func comparePushes(a, b push) int {
	return cmp.Or(cmp.Compare(b.id, a.id), cmp.Compare(a.token, b.token))
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
