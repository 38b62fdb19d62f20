package protocol

import (
	"cmp"
	"hash/maphash"
	"slices"
)

// sortProcesses orders the processes by everything that is known about each.
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

// view is a hash of everything about process i, whichever number it has.
func (s *state) view(i int) uint64 {
	v := struct {
		process process
		holder  int
		readers uint32
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
	v.process.id, v.process.predecessor = ident(v.process.id.number()), ident(v.process.predecessor.number())
	name := func(id *ident) {
		if own(*id) != 0 {
			*id = ident(id.number())
		} else if *id != nobody {
			*id = ident(1<<serial + 1 + s.index(*id)) // of another process
		}
	}
	name(&v.process.held)
	v.process.batch.each(name)
	v.process.had.each(name)
	v.process.push.batch.each(name)
	v.holder = own(s.holder)
	for _, id := range s.readers {
		v.readers |= 1 << own(id)
	}
	for j, t := range s.queue {
		v.queue[j] = own(t.id)
	}
	for _, c := range s.commands {
		if own(c.id) != 0 {
			c.id, c.predecessor = ident(c.id.number()), ident(c.predecessor.number())
			c.had.each(name)
			v.rest += maphash.Comparable(viewSeed, c)
		}
	}
	for _, n := range s.pushes {
		if own(n.id) != 0 {
			n.id = ident(n.id.number())
			n.batch.each(name)
			v.rest += maphash.Comparable(viewSeed, n)
		}
	}
	return maphash.Comparable(viewSeed, v)
}

func compareAnswers(a, b answer) int {
	return cmp.Or(cmp.Compare(a.outcome, b.outcome), cmp.Compare(a.token, b.token), compareBools(a.good, b.good))
}

func compareCommands(a, b command) int {
	return cmp.Or(
		cmp.Compare(a.verb, b.verb), cmp.Compare(a.id, b.id), cmp.Compare(a.predecessor, b.predecessor),
		cmp.Compare(a.flags(), b.flags()), cmp.Compare(a.stood, b.stood), cmp.Compare(a.since, b.since),
		slices.Compare(a.had[:], b.had[:]),
	)
}

func comparePushes(a, b push) int {
	return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.number, b.number), cmp.Compare(a.token, b.token), slices.Compare(a.batch[:], b.batch[:]))
}

func (c command) flags() (flags uint16) {
	for i, f := range []bool{c.reads, c.lost, c.mark, c.wait, c.keeps, c.served, c.stray, c.batches} {
		if f {
			flags |= 1 << i
		}
	}
	return flags
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
