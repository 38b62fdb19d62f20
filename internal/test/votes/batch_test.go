package votes

// block is how many tokens a vote reserves that is sent in a batch.
const block = 2

// batchMoves adds executions of vote_batch.lua at a node. Each has a vote for another lock, the vote of a process, and perhaps
// a late vote of an earlier bid of that process.
func (y *system) batchMoves(s *state, i, n int, add func(string, func(*state))) {
	id := y.id(i, s.proc[i].bid)
	orders := [][]int8{{id}}
	for former := y.id(i, 0); former < id; former++ {
		if s.node[n].late&(1<<former) != 0 {
			orders = append(orders, []int8{id, former}, []int8{former, id})
		}
	}
	for _, ids := range orders {
		add("has a batch of votes executed", func(s *state) { y.batch(s, i, n, ids) })
	}
}

// batch runs vote_batch.lua. A vote that it does not grant is left to acquire.lua.
func (y *system) batch(s *state, i, n int, ids []int8) {
	d := &s.node[n]
	mine := &s.proc[i].votes[n]
	own := y.id(i, s.proc[i].bid)
	mine.outcome = left
	if d.since != never && y.keeps(gated) {
		return
	}
	isFree := d.holder == 0 && d.waiter == 0
	last, taken := d.counter+1, false // of the other lock
	for _, id := range ids {
		if !isFree && y.keeps(freeOnes) || d.done&(1<<id) != 0 && y.keeps(doneOnes) || taken && y.keeps(oneOfAKey) {
			continue
		}
		taken = true
		first := last + 1
		d.holder, d.until, last = id, s.now+lease, first+block-1
		if id == own {
			*mine = vote{outcome: granted, sent: mine.sent, deadline: s.now + lease, token: first, knows: last}
		} else {
			d.late &^= 1 << id
		}
		if !y.keeps(countsAll) {
			last = first
		}
	}
	d.counter = last
}
