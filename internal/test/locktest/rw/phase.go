package rw

import (
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/recording"
	"github.com/lockmw/go/lockmw"
)

// Phase-fair: all waiting readers are admitted together, alternating with single writers.
var phases = []env.Scenario{
	env.Case("a stream of readers delays a writer by one phase", readersKeepComing, env.TwoSided|env.Shares),
	env.Case("a stream of writers delays a reader by one writer", writersKeepComing, env.TwoSided|env.Shares),
	env.Case("a writer's release admits 300 readers, with no writer in between", func(e *env.Env) { admitsAll(e, false) }, env.TwoSided|env.Shares),
	env.Case("readers carry the token of the writer before them", tokensOfPhases, env.TwoSided|env.Shares|env.Sample),
}

func read(e *env.Env, c *env.Client, key string, opts ...lockmw.Option) *recording.Held {
	e.T.Helper()
	_, held := e.Lock(c.Reader(), key, opts...)
	return held
}

func write(e *env.Env, c *env.Client, key string, opts ...lockmw.Option) *recording.Held {
	e.T.Helper()
	_, held := e.Lock(c.RW, key, opts...)
	return held
}

// release unlocks holds that were not lost.
func release(e *env.Env, holds ...*recording.Held) {
	e.T.Helper()
	for _, h := range holds {
		e.Unlock(h.Ctx, h)
	}
}

// together checks that all calls get the lock immediately, without any of them unlocking.
func together(e *env.Env, waiters []*env.Waiter) (holds []*recording.Held) {
	e.T.Helper()
	start := time.Now()
	for _, w := range waiters {
		_, held := w.Gets(max(0, e.Soon-e.Pace.Since(start)))
		holds = append(holds, held)
	}
	return holds
}

// behind starts a reader while others read, and returns once it waits behind a queued writer. Until c's process knows of that
// writer, its readers share their hold.
func behind(e *env.Env, c *env.Client, key string, opts ...lockmw.Option) *env.Waiter {
	e.T.Helper()
	heard(e, c, key, opts...)
	return e.Wait(c.Reader(), key, opts...)
}

// heard waits until the readers of c's process know that a writer waits. opts must equal theirs, because only equal options
// share a hold.
func heard(e *env.Env, c *env.Client, key string, opts ...lockmw.Option) {
	e.T.Helper()
	if e.Config.Bubble {
		synctest.Wait()
		return
	}
	e.Eventually(e.Soon, func() string {
		_, held, err := e.Rec.Lock(e.Ctx, c.Reader(), key, append(opts, lockmw.WithWait(0))...)
		if err != nil {
			return ""
		}
		release(e, held)
		return "readers still join"
	})
}

func readersKeepComing(e *env.Env) {
	const readers, work, rounds = 50, 20 * time.Millisecond, 3
	clients, writer, key := e.Clients(2), e.Client(), e.Key("item")
	for _, c := range clients {
		defer e.Crowd(c.Reader(), key, readers/len(clients), work)()
	}
	// Each reader may have been admitted before the writer queued, and recorded afterwards.
	most := readers
	if !e.Config.Bubble {
		most *= 6 // until a process knows of the writer, its readers come and go
	}
	for range rounds {
		gets(e, key, 3*readers)
		w, _ := e.Arrive(e.Ctx, writer.RW, key) // on a busy machine no reader may hold the lock at this moment
		before := e.Rec.Grants(key)
		_, held := w.Gets(env.Patience)
		if n := held.Nth - 1 - before; n > most {
			e.T.Errorf("%d readers were admitted while a writer waited, more than %d", n, most)
		}
		release(e, held)
	}
}

// gets waits until key is granted n more times.
func gets(e *env.Env, key string, n int) {
	e.T.Helper()
	enough := e.Rec.Grants(key) + n
	e.Eventually(env.Patience, func() string {
		if e.Rec.Grants(key) >= enough {
			return ""
		}
		return "the crowd makes no progress"
	})
}

func writersKeepComing(e *env.Env) {
	const writers, work, rounds = 50, time.Millisecond, 10
	clients, reader, key := e.Clients(2), e.Client(), e.Key("item")
	for _, c := range clients {
		defer e.Crowd(c.RW, key, writers/len(clients), work)()
	}
	for range rounds {
		gets(e, key, writers)
		r, _ := e.Arrive(e.Ctx, reader.Reader(), key) // no writer may hold it, as above
		before := e.Rec.Grants(key)
		_, held := r.Gets(env.Patience)
		if n := held.Nth - 1 - before; n > 1 {
			e.T.Errorf("%d writers were admitted while a reader waited", n)
		}
		release(e, held)
	}
}

// admit admits the waiting readers by releasing or downgrading a write hold.
func admit(e *env.Env, c *env.Client, writer *recording.Held, downgrades bool) {
	e.T.Helper()
	if downgrades {
		downgrade(e, c, writer)
	} else {
		release(e, writer)
	}
}

// admitsAll makes 300 readers wait for a writer, with other writers before, among and behind them.
func admitsAll(e *env.Env, downgrades bool) {
	const n = 300
	clients, key := e.Clients(4), e.Key("item")
	first := write(e, clients[0], key)
	var writers, readers []*env.Waiter
	for i := range n {
		if i%(n/3) == 0 {
			writers = append(writers, e.Wait(clients[i%3].RW, key))
		}
		// Different leases prevent readers from sharing a ticket.
		readers = append(readers, e.Wait(clients[i%4].Reader(), key, lockmw.WithLease(time.Minute+time.Duration(i)*time.Second)))
	}
	writers = append(writers, e.Wait(clients[1].RW, key))
	late := admitted(e, n, func() { admit(e, clients[0], first, downgrades) }, readers)
	for _, w := range writers {
		w.IsWaiting()
	}
	release(e, late...)
	if downgrades {
		writers[0].IsWaiting()
		release(e, first)
	}
	for i, w := range writers {
		_, held := w.Gets(e.Soon)
		if held.Nth != 1+n+1+i {
			e.T.Errorf("the writer received grant %d, after one writer and %d readers", held.Nth, n)
		}
		release(e, held)
	}
}

// admitted checks that do admits all readers together.
func admitted(e *env.Env, n int, do func(), readers []*env.Waiter) []*recording.Held {
	e.T.Helper()
	for _, r := range readers {
		r.IsWaiting()
	}
	do()
	if n > 100 && !e.Config.Bubble {
		readers[len(readers)-1].Returns(4 * e.Soon) // this many take time on a busy machine
	}
	return together(e, readers)
}

func tokensOfPhases(e *env.Env) {
	clients, key := e.Clients(2), e.Key("item")
	release(e, read(e, clients[0], key)) // before any writer
	last := write(e, clients[0], key)
	for range 5 {
		waiting := []*env.Waiter{e.Wait(clients[0].Reader(), key), e.Wait(clients[1].Reader(), key)}
		token := last.Token()
		release(e, last)
		for _, held := range together(e, waiting) {
			if held.Token() != token {
				e.T.Errorf("after the writer's token %d a reader has token %d", token, held.Token())
			}
			release(e, held)
		}
		last = write(e, clients[1], key, lockmw.WithWait(e.Ample(e.Soon)))
	}
	release(e, last)
}
