package locktest

import (
	"slices"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/lockmw"
)

var readWrite = slices.Concat(phases, upgrades, downgrades, readerLeases, killedReaders, mixedKinds, readWriteTries, readersLeaving,
	sharing, inspected, readWriteLostReplies, readWriteFaults, readWriteReplays, readWriteModelled)

// Phase-fair: those who read come in together, and take turns with each single one who writes.
var phases = []scenario{
	{"readers overlap", readersOverlap, twoSided | shares | sample},
	{"readers that keep coming delay a writer by one phase", readersKeepComing, twoSided | shares},
	{"writers that keep coming delay a reader by one of them", writersKeepComing, twoSided | shares},
	{"a writer's release lets in all readers that wait", func(e *env) { e.admitsAll(30) }, twoSided | shares},
	{"a writer's release lets in 300 readers with no writer in between", func(e *env) { e.admitsAll(300) }, twoSided | shares},
	{"readers and single writers take turns", phasesAlternate, twoSided | shares},
	{"writers run in the order in which they asked", writersInOrder, twoSided | shares | sample},
	{"readers carry the token of the writer before them", tokensOfPhases, twoSided | shares | sample},
}

func (e *env) read(c *client, key string, opts ...lockmw.Option) *Held {
	e.t.Helper()
	_, held := e.lock(c.reader(), key, opts...)
	return held
}

func (e *env) write(c *client, key string, opts ...lockmw.Option) *Held {
	e.t.Helper()
	_, held := e.lock(c.rw, key, opts...)
	return held
}

// release unlocks holds that were not lost.
func (e *env) release(holds ...*Held) {
	e.t.Helper()
	for _, h := range holds {
		e.unlock(h.ctx, h)
	}
}

// together checks that all of the calls get the lock at once and without one of them having unlocked.
func (e *env) together(waiters []*waiter) (holds []*Held) {
	e.t.Helper()
	limit := time.Now().Add(e.soon)
	for _, w := range waiters {
		_, held := w.gets(max(0, time.Until(limit)))
		holds = append(holds, held)
	}
	return holds
}

// behind starts a call that reads while others do, and returns when it waits for a writer that came
// before: until c's process has heard of that one, its readers share what they have.
func (e *env) behind(c *client, key string, opts ...lockmw.Option) *waiter {
	e.t.Helper()
	e.heard(c, key, opts...)
	return e.wait(c.reader(), key, opts...)
}

// heard waits until those of c's process who have the lock for reading know that somebody waits to
// write. The options are theirs: who has others shares nothing with them.
func (e *env) heard(c *client, key string, opts ...lockmw.Option) {
	e.t.Helper()
	if e.cfg.Bubble {
		synctest.Wait()
		return
	}
	e.eventually(e.soon, func() string {
		_, held, err := e.rec.Lock(e.ctx, c.reader(), key, append(opts, lockmw.WithWait(0))...)
		if err != nil {
			return ""
		}
		e.release(held)
		return "readers still join"
	})
}

func readersOverlap(e *env) {
	const readers = 50
	clients, key := e.clients(3), e.key("item")
	calls := make([]*waiter, readers)
	for i := range calls {
		calls[i] = e.call(e.ctx, clients[i%len(clients)].reader(), key)
	}
	holds := e.together(calls)
	e.busy(clients[0].rw, key)
	e.release(holds...)
	e.free(clients[0].rw, key)
}

func readersKeepComing(e *env) {
	const readers, work, rounds = 50, 20 * time.Millisecond, 3
	clients, writer, key := e.clients(2), e.client(), e.key("item")
	for _, c := range clients {
		defer e.crowd(c.reader(), key, readers/len(clients), work)()
	}
	// Each of them may have been let in before the writer came, and be seen later only.
	most := readers
	if !e.cfg.Bubble {
		most *= 6 // until a process has heard of the writer its readers go in and out
	}
	for range rounds {
		e.gets(key, 3*readers)
		w := e.wait(writer.rw, key)
		before := e.rec.Grants(key)
		_, held := w.gets(patience)
		if n := held.nth - 1 - before; n > most {
			e.t.Errorf("%d readers were let in while a writer waited, more than %d", n, most)
		}
		e.release(held)
	}
}

// gets waits until key was granted n times more.
func (e *env) gets(key string, n int) {
	e.t.Helper()
	enough := e.rec.Grants(key) + n
	e.eventually(patience, func() string {
		if e.rec.Grants(key) >= enough {
			return ""
		}
		return "the crowd does not get on"
	})
}

func writersKeepComing(e *env) {
	const writers, work, rounds = 50, time.Millisecond, 10
	clients, reader, key := e.clients(2), e.client(), e.key("item")
	for _, c := range clients {
		defer e.crowd(c.rw, key, writers/len(clients), work)()
	}
	for range rounds {
		e.gets(key, writers)
		r := e.wait(reader.reader(), key)
		before := e.rec.Grants(key)
		_, held := r.gets(patience)
		if n := held.nth - 1 - before; n > 1 {
			e.t.Errorf("%d writers were let in while a reader waited", n)
		}
		e.release(held)
	}
}

// admitsAll has n readers wait for a writer, with writers before, among and after them.
func (e *env) admitsAll(n int) {
	clients, key := e.clients(4), e.key("item")
	first := e.write(clients[0], key)
	var writers, readers []*waiter
	for i := range n {
		if i%(n/3) == 0 {
			writers = append(writers, e.wait(clients[i%3].rw, key))
		}
		// With leases of their own they share no place in the queue.
		readers = append(readers, e.wait(clients[i%4].reader(), key, lockmw.WithLease(time.Minute+time.Duration(i)*time.Second)))
	}
	writers = append(writers, e.wait(clients[1].rw, key))
	late := e.admitted(n, func() { e.release(first) }, readers)
	for _, w := range writers {
		w.isWaiting()
	}
	e.release(late...)
	for i, w := range writers {
		_, held := w.gets(e.soon)
		if held.nth != 1+n+1+i {
			e.t.Errorf("the writer was grant %d, after one writer and %d readers", held.nth, n)
		}
		e.release(held)
	}
}

// admitted checks that do lets in the readers, all at once.
func (e *env) admitted(n int, do func(), readers []*waiter) []*Held {
	e.t.Helper()
	for _, r := range readers {
		r.isWaiting()
	}
	do()
	if n > 100 && !e.cfg.Bubble {
		readers[len(readers)-1].returns(4 * e.soon) // which are many for a machine that is busy
	}
	return e.together(readers)
}

func phasesAlternate(e *env) {
	clients, key := e.clients(3), e.key("item")
	held := e.write(clients[0], key)
	for round := range 5 {
		readers := []*waiter{
			e.wait(clients[round%3].reader(), key), e.wait(clients[(round+1)%3].reader(), key),
		}
		writers := []*waiter{e.wait(clients[(round+2)%3].rw, key), e.wait(clients[round%3].rw, key)}
		readers = append(readers, e.wait(clients[(round+2)%3].reader(), key))
		e.release(held)
		holds := e.together(readers)
		next := e.behind(clients[1], key) // comes while they read and writers wait
		e.release(holds[0])
		e.release(holds[2])
		writers[0].isWaiting()
		e.release(holds[1])
		_, held = writers[0].gets(e.soon)
		writers[1].isWaiting()
		next.isWaiting()
		e.release(held)
		_, reader := next.gets(e.soon)
		writers[1].isWaiting()
		e.release(reader)
		_, held = writers[1].gets(e.soon)
	}
	e.release(held)
}

func writersInOrder(e *env) {
	clients, key := e.clients(3), e.key("item")
	reader := e.read(clients[0], key)
	writers := make([]*waiter, 12)
	for i := range writers {
		writers[i] = e.wait(clients[i%len(clients)].rw, key)
	}
	e.release(reader)
	e.runInOrder(writers)
}

func tokensOfPhases(e *env) {
	clients, key := e.clients(2), e.key("item")
	e.release(e.read(clients[0], key)) // before any writer
	last := e.write(clients[0], key)
	for range 5 {
		waiting := []*waiter{e.wait(clients[0].reader(), key), e.wait(clients[1].reader(), key)}
		token := last.Token()
		e.release(last)
		for _, held := range e.together(waiting) {
			if held.Token() != token {
				e.t.Errorf("after the writer's token %d a reader has %d", token, held.Token())
			}
			e.release(held)
		}
		last = e.write(clients[1], key, lockmw.WithWait(e.soon))
	}
	e.release(last)
}
