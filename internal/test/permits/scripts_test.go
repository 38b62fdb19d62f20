package permits

// A run is one execution of a script. It is cut off after its remaining writes, and then has no further effect.
type run struct {
	y    *system
	s    *state
	by   int // the process that runs the script
	left int

	grantsNothing bool
}

const uncut = 100

func (r *run) write(do func()) {
	if r.left > 0 {
		r.left--
		do()
	}
}

// finish checks what must hold after a complete execution of a script that grants.
func (r *run) finish() {
	s := r.s
	if r.grantsNothing || r.left == 0 || s.wrong != "" || s.locked > s.now {
		return
	}
	if s.now < s.next && s.used != s.liveWeight(-1) {
		s.wrong = "the counted permits are not the live ones"
		return
	}
	if s.length > 0 {
		head := s.queue[0]
		if i := owner(head); s.liveWeight(-1)+r.y.weights[i] <= r.y.n[i] {
			s.wrong = "the head waits although it fits"
		}
	}
}

// reap counts the permits anew if one may have expired.
func (r *run) reap() {
	s, y := r.s, r.y
	if s.now < s.next || !y.keeps(lapsedIsReaped) {
		return
	}
	r.write(func() {
		s.used, s.taken, s.next = 0, 0, 127
		reaped := int8(0)
		for id := range s.permits {
			p := &s.permits[id]
			switch {
			case p.end == 0:
				continue
			case !s.isLive(int8(id)) && reaped == y.reaped:
				s.next = s.now // the next execution removes the rest
				continue
			case !s.isLive(int8(id)):
				*p = permit{}
				reaped++
				continue
			}
			s.used += p.w
			s.taken |= p.slots
			s.next = min(s.next, p.end)
		}
	})
}

// grant gives a permit to an id until `end`. A ticket gets a message.
func (r *run) grant(id, end int8, ticket bool) {
	y, s, i := r.y, r.s, owner(id)
	w, n := y.weights[i], y.n[i]
	slots := y.freeSlots(s, w, n)
	if ticket && s.queue[0] != id || !ticket && s.length > 0 {
		s.wrong = "a ticket was overtaken"
	}
	if ticket {
		r.write(func() { s.removeTicket(id) })
	}
	r.write(func() {
		if y.keeps(tokensRise) {
			s.counter++
		}
	})
	publish := func() {
		if ticket {
			s.proc[i].push = answer{granted, s.counter, slots}
			if s.proc[i].attempt != id/most+1 {
				s.proc[i].push = answer{} // the id is unknown to every call
			}
		}
	}
	if !y.keeps(pushIsLast) {
		r.write(publish)
	}
	field := func() {
		r.checkGrant(id, i, w, n)
		s.hash = true
		s.permits[id] = permit{end, w, slots}
		for slot := range s.last {
			if slots&(1<<slot) != 0 {
				if s.counter <= s.last[slot] {
					s.wrong = "a slot has no greater token than before"
				}
				s.last[slot] = s.counter
			}
		}
	}
	count := func() {
		s.used += w
		s.taken |= slots
		s.next = min(s.next, end)
	}
	if y.keeps(oneWrite) {
		r.write(func() { field(); count() })
	} else {
		r.write(field)
		r.write(count)
	}
	r.expire(end)
	if y.keeps(pushIsLast) {
		r.write(publish)
	}
}

// checkGrant records a grant that breaks a promise.
func (r *run) checkGrant(id int8, i int, w, n int8) {
	s := r.s
	weight := s.liveWeight(id)
	for other := range s.proc {
		if s.works(other) && other != i && !s.isLive(s.id(other)) {
			weight += r.y.weights[other]
		}
	}
	switch {
	case weight+w > n:
		s.wrong = "more permits than n"
	case s.locked > s.now:
		s.wrong = "a permit while a lock is held"
	}
}

// expire lets the hash live until a permit has ended, and longer while other permits last or a call waits.
func (r *run) expire(end int8) {
	s, y := r.s, r.y
	r.write(func() {
		if s.ttl == 0 || !y.keeps(ttlIsLatest) {
			s.ttl = end
		}
		s.ttl = max(s.ttl, end)
		if s.length > 0 && y.keeps(ttlCoversQueue) {
			s.ttl = max(s.ttl, s.now+waiting)
		}
	})
}

// grantNext grants to the head of the queue as long as it fits.
func (r *run) grantNext() {
	y, s := r.y, r.s
	for at := int8(0); at < s.length && r.left > 0; {
		id := s.queue[at]
		i := owner(id)
		n := y.n[i]
		if !y.keeps(ownCapacity) {
			n = y.n[r.by]
		}
		switch {
		case s.used+y.weights[i] <= n:
			r.grant(id, s.now+window, true)
		case y.keeps(headFirst):
			at = s.length
		default:
			at++
		}
	}
	r.tidy()
}

// tidy removes the hash if it is empty and no call waits.
func (r *run) tidy() {
	s := r.s
	if s.hash && s.used == 0 && s.length == 0 && s.now < s.next {
		r.write(s.removeHash)
	}
}

func (s *state) removeHash() {
	s.hash, s.ttl, s.permits, s.used, s.taken, s.next = false, 0, [2 * most]permit{}, 0, 0, 127
}

// acquire is acquire.lua.
func (r *run) acquire(id int8) answer {
	y, s, i := r.y, r.s, owner(id)
	if s.locked > s.now && y.keeps(kindsAreCompared) {
		return answer{}
	}
	r.reap()
	if s.done&(1<<id) != 0 && y.keeps(doneIsRefused) {
		r.grantNext()
		return answer{}
	}
	fits := s.used+y.weights[i] <= y.n[i]
	switch {
	case s.isLive(id):
	case fits && (s.length == 0 || !y.keeps(strictOrder)):
		r.grant(id, s.now+lease, false)
	default:
		if !s.isQueued(id) {
			r.write(func() { s.queue[s.length] = id; s.length++ })
			if s.hash {
				r.expire(0)
			}
		}
		r.grantNext()
	}
	return r.found(id)
}

// found is the answer to an id, whose permit it extends.
func (r *run) found(id int8) answer {
	s := r.s
	if s.isLive(id) {
		r.extend(id)
		return answer{granted, s.counter, s.permits[id].slots}
	}
	return answer{outcome: waits, token: s.counter}
}

func (r *run) extend(id int8) {
	s := r.s
	r.expire(s.now + lease)
	r.write(func() { s.permits[id].end = max(s.permits[id].end, s.now+lease) })
}

// renew is renew.lua. It reports whether the id has its permit.
func (r *run) renew(id int8) bool {
	r.grantsNothing = true
	if r.s.permits[id].end == 0 || !r.s.isLive(id) && r.y.keeps(lapsedIsOver) {
		return false
	}
	r.extend(id)
	return true
}

// release is release.lua.
func (r *run) release(id int8) {
	if !r.s.isLive(id) {
		r.grantsNothing = true
		return
	}
	r.reap()
	r.free(id)
	r.write(func() { r.s.done |= 1 << id }) // a copy of its acquire may still arrive
	if r.y.keeps(releaseGrants) {
		r.grantNext()
	}
}

// free ends a permit.
func (r *run) free(id int8) {
	s := r.s
	p := s.permits[id]
	count := func() {
		s.used -= p.w
		s.taken &^= p.slots
	}
	field := func() { s.permits[id] = permit{} }
	if r.y.keeps(oneWrite) {
		r.write(func() { count(); field() })
		return
	}
	r.write(count)
	r.write(field)
}

// cancel is cancel.lua.
func (r *run) cancel(id int8) {
	s := r.s
	r.write(func() { s.removeTicket(id) })
	r.reap()
	if s.isLive(id) {
		r.free(id)
	}
	r.write(func() { s.done |= 1 << id })
	r.grantNext()
}

// poll is poll.lua for one ticket.
func (r *run) poll(id int8) answer {
	s := r.s
	if s.locked > s.now {
		return answer{}
	}
	r.reap()
	if s.hash {
		r.expire(0)
	}
	r.grantNext()
	if !s.isLive(id) && !s.isQueued(id) {
		return answer{}
	}
	return r.found(id)
}
