package deadlock_test

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/lockmw/go/internal/core"
)

// A world has threads that take locks and wait for them, as a server with several processes would see it. It determines the
// truth, that is, which waits never end, by letting all threads finish. It does not use package deadlock.
type world struct {
	rand    *rand.Rand
	now     int
	ids     int
	keys    []*key
	threads []*thread
}

// A key is a lock that excludes all (kind 0), one for reading and writing (1), or permits (2).
type key struct {
	name    string
	kind    int
	permits int
	holds   []*hold
	queue   []*wait
	readers bool // the next phase belongs to readers
}

type hold struct {
	id     string
	key    *key
	of     *thread
	reads  bool
	weight int
}

type wait struct {
	id, ticket string
	key        *key
	of         *thread
	reads      bool
	weight     int
	until      int // it ends by itself then; 0: never
	detects    bool
}

// A thread has holds of its own, below the holds of the thread that started it and waits for its end.
type thread struct {
	name   int
	owner  string
	parent *thread
	holds  []*hold
	wait   *wait
	over   bool
}

func newWorld(r *rand.Rand) *world {
	w := &world{rand: r}
	for i := range 2 + r.IntN(4) {
		w.keys = append(w.keys, &key{name: fmt.Sprintf("k%d", i), kind: r.IntN(3), permits: 1 + r.IntN(4)})
	}
	for range 2 + r.IntN(5) {
		w.begin(nil)
	}
	return w
}

func (w *world) newID() string {
	w.ids++
	return fmt.Sprint(w.ids)
}

func (w *world) begin(parent *thread) {
	t := &thread{name: len(w.threads), parent: parent}
	t.owner = fmt.Sprint("o", t.name)
	if parent != nil {
		t.owner = parent.owner
	}
	w.threads = append(w.threads, t)
}

// chain returns the holds of the context of t, the innermost first.
func (t *thread) chain() (all []*hold) {
	for ; t != nil; t = t.parent {
		for _, h := range slices.Backward(t.holds) {
			all = append(all, h)
		}
	}
	return all
}

func (w *world) children(of *thread) (n int) {
	for _, t := range w.threads {
		if t.parent == of && !t.over {
			n++
		}
	}
	return n
}

// step lets one thread act, and time pass.
func (w *world) step() {
	w.now++
	for _, t := range w.threads {
		if t.wait != nil && t.wait.until != 0 && t.wait.until <= w.now {
			w.giveUp(t)
		}
	}
	var free []*thread
	for _, t := range w.threads {
		if !t.over && t.wait == nil && w.children(t) == 0 {
			free = append(free, t)
		}
	}
	if len(free) == 0 {
		return
	}
	t := free[w.rand.IntN(len(free))]
	switch n := w.rand.IntN(10); {
	case n < 2 && len(t.chain()) > 0 && len(w.threads) < 16:
		w.begin(t)
		w.begin(t)
	case n < 4 && len(t.holds) > 0:
		w.release(t)
	case n == 4 && t.parent != nil:
		w.finish(t)
	default:
		w.lock(t)
	}
}

// lock makes t request a lock that its context does not have.
func (w *world) lock(t *thread) {
	k := w.keys[w.rand.IntN(len(w.keys))]
	if slices.ContainsFunc(t.chain(), func(h *hold) bool { return h.key == k }) && w.rand.IntN(20) > 0 { // otherwise by another Client
		return
	}
	q := &wait{id: "w" + w.newID(), ticket: "t" + w.newID(), key: k, of: t, detects: w.rand.IntN(8) > 0}
	switch k.kind {
	case 1:
		q.reads = w.rand.IntN(2) == 0
	case 2:
		q.weight = 1 + w.rand.IntN(k.permits)
	}
	if w.rand.IntN(4) == 0 {
		q.until = w.now + 1 + w.rand.IntN(60)
	}
	t.wait = q
	k.queue = append(k.queue, q)
	k.serve()
}

func (w *world) giveUp(t *thread) {
	k := t.wait.key
	k.queue = slices.DeleteFunc(k.queue, func(q *wait) bool { return q == t.wait })
	t.wait = nil
	k.serve()
}

func (w *world) release(t *thread) {
	last := len(t.holds) - 1
	h := t.holds[last]
	t.holds = t.holds[:last]
	h.key.holds = slices.DeleteFunc(h.key.holds, func(other *hold) bool { return other == h })
	h.key.readers = h.key.kind == 1 && !h.reads
	h.key.serve()
}

func (w *world) finish(t *thread) {
	for len(t.holds) > 0 {
		w.release(t)
	}
	t.over = true
}

// serve grants the lock to the threads that may have it now.
func (k *key) serve() {
	for len(k.queue) > 0 {
		i := k.next()
		if i < 0 {
			return
		}
		q := k.queue[i]
		k.queue = slices.Delete(k.queue, i, i+1)
		h := &hold{id: "l" + q.ticket, key: k, of: q.of, reads: q.reads, weight: q.weight}
		k.holds = append(k.holds, h)
		q.of.holds, q.of.wait = append(q.of.holds, h), nil
	}
}

// next returns the index of the next thread in the queue that may have the lock now, or -1.
func (k *key) next() int {
	reads := func(q *wait) bool { return q.reads }
	writes := func(q *wait) bool { return !q.reads }
	switch {
	case k.kind == 2:
		used := k.queue[0].weight
		for _, h := range k.holds {
			used += h.weight
		}
		if used > k.permits {
			return -1
		}
		return 0
	case len(k.holds) == 0 && k.kind == 1 && k.readers:
		if i := slices.IndexFunc(k.queue, reads); i >= 0 {
			return i // and the rest of this phase below
		}
		return 0
	case len(k.holds) == 0:
		if i := slices.IndexFunc(k.queue, writes); i >= 0 && k.kind == 1 {
			return i
		}
		return 0
	case k.kind == 1 && k.holds[0].reads:
		i := slices.IndexFunc(k.queue, reads)
		if k.readers || !slices.ContainsFunc(k.queue, writes) {
			return i
		}
	}
	return -1
}

// soon is the number of steps within which an end counts as continuing.
const soon = 20

// frozen returns the waits that never end when all threads that can finish do. It destroys the world.
func (w *world) frozen() map[string]bool {
	for again := true; again; {
		again = false
		for _, t := range w.threads {
			if t.wait != nil && t.wait.until != 0 && t.wait.until <= w.now+soon {
				w.giveUp(t)
				again = true
			}
			if !t.over && t.wait == nil && w.children(t) == 0 {
				w.finish(t)
				again = true
			}
		}
		for _, k := range w.keys { // a phase of readers has ended
			k.readers = false
			k.serve()
		}
	}
	deadlocked := make(map[string]bool)
	for _, t := range w.threads {
		if t.wait != nil && len(t.chain()) > 0 {
			deadlocked[t.wait.id] = true
		}
	}
	return deadlocked
}

// copy returns an independent copy of the world.
func (w *world) copy() *world {
	c := &world{rand: w.rand, now: w.now, ids: w.ids}
	threads := make(map[*thread]*thread)
	keys, holds, waits := make(map[*key]*key), make(map[*hold]*hold), make(map[*wait]*wait)
	for _, k := range w.keys {
		other := *k
		keys[k] = &other
		c.keys = append(c.keys, &other)
	}
	for _, t := range w.threads {
		other := *t
		threads[t] = &other
		c.threads = append(c.threads, &other)
	}
	hold1 := func(h *hold) *hold {
		if holds[h] == nil {
			other := *h
			other.key, other.of = keys[h.key], threads[h.of]
			holds[h] = &other
		}
		return holds[h]
	}
	wait1 := func(q *wait) *wait {
		if q == nil {
			return nil
		}
		if waits[q] == nil {
			other := *q
			other.key, other.of = keys[q.key], threads[q.of]
			waits[q] = &other
		}
		return waits[q]
	}
	for _, t := range c.threads {
		t.parent, t.wait = threads[t.parent], wait1(t.wait)
		t.holds = slices.Clone(t.holds)
		for i, h := range t.holds {
			t.holds[i] = hold1(h)
		}
	}
	for _, k := range c.keys {
		k.holds, k.queue = slices.Clone(k.holds), slices.Clone(k.queue)
		for i, h := range k.holds {
			k.holds[i] = hold1(h)
		}
		for i, q := range k.queue {
			k.queue[i] = wait1(q)
		}
	}
	return c
}

func (q *wait) mode() core.Mode {
	if q.reads {
		return core.Read
	}
	return core.Exclusive
}

// find returns the wait with an id.
func (w *world) find(id string) *wait {
	for _, t := range w.threads {
		if t.wait != nil && t.wait.id == id {
			return t.wait
		}
	}
	return nil
}
