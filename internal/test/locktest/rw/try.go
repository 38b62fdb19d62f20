package rw

import (
	"errors"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/locktest/judge"
	"github.com/lockmw/go/lockmw"
)

var readWriteTries = []env.Scenario{
	env.Case("a try succeeds or fails at once in every state of the lock", triesInEveryState, env.TwoSided|env.Shares),
	env.Case("a try that fails names who is in the way", tryNamesHolders, env.TwoSided|env.Shares|env.Sample),
	env.Case("a try leaves nothing behind that keeps others out", tryLeavesNothing, env.TwoSided|env.Shares|env.Sample),
}

// tries checks whether a try for reading, and one for writing, gets the lock.
func tries(e *env.Env, state string, c *env.Client, key string, reads, writes bool) {
	e.T.Helper()
	for _, try := range []struct {
		l    lockmw.Locker
		want bool
	}{{c.Reader(), reads}, {c.RW, writes}} {
		_, held, err := e.Rec.Lock(e.Ctx, try.l, key, lockmw.WithWait(0))
		switch {
		case err == nil:
			if !try.want {
				e.T.Errorf("%s: a try gets the lock, for reading: %v", state, held.Reads)
			}
			release(e, held)
		case try.want:
			e.T.Errorf("%s: a try fails: %v", state, err)
		default:
			e.Is(state, err, lockmw.ErrBusy)
		}
	}
}

func triesInEveryState(e *env.Env) {
	holder, waiter, a := e.Client(), e.Client(), e.Client()
	for _, c := range []*env.Client{a, holder, waiter} {
		key := e.Key("item")
		tries(e, "free", c, key, true, true)
		reader := read(e, holder, key)
		tries(e, "read", c, key, true, false)
		w := e.Wait(waiter.RW, key)
		heard(e, c, key)
		tries(e, "read, with a writer waiting", c, key, false, false)
		r := e.Wait(waiter.Reader(), key)
		tries(e, "read, with a writer and a reader waiting", c, key, false, false)
		release(e, reader)
		_, writer := w.Gets(e.Soon)
		tries(e, "written, with a reader waiting", c, key, false, false)
		release(e, writer)
		_, reader = r.Gets(e.Soon)
		tries(e, "read by who has waited", c, key, true, false)
		release(e, reader)
		tries(e, "free again", c, key, true, true)
		writer = write(e, holder, key)
		tries(e, "written", c, key, false, false)
		downgrade(e, holder, writer)
		tries(e, "downgraded", c, key, true, false)
		release(e, writer)
		tries(e, "free at last", c, key, true, true)
	}
}

func tryNamesHolders(e *env.Env) {
	clients, key := e.Clients(3), e.Key("item")
	holds := []*judge.Held{read(e, clients[0], key), read(e, clients[1], key)}
	names(e, clients[2].RW, key, holds...)
	w := e.Wait(clients[2].RW, key)
	names(e, clients[2].Reader(), key, holds...)
	release(e, holds...)
	_, writer := w.Gets(e.Soon)
	for _, l := range []lockmw.Locker{clients[0].Reader(), clients[0].RW} {
		names(e, l, key, writer)
	}
	release(e, writer)
}

// names checks that a try fails with the holders' tokens in its error.
func names(e *env.Env, l lockmw.Locker, key string, holds ...*judge.Held) {
	e.T.Helper()
	_, _, err := e.Rec.Lock(e.Ctx, l, key, lockmw.WithWait(0))
	failure, ok := errors.AsType[*lockmw.Error](err)
	if !ok {
		e.T.Errorf("a try: %v", err)
		return
	}
	if len(failure.Holders) != len(holds) {
		e.T.Errorf("in the way are %d, not %+v", len(holds), failure.Holders)
		return
	}
	for _, h := range failure.Holders {
		if h.Token != holds[0].Token() || h.Process == "" || h.Owner == "" {
			e.T.Errorf("in the way is %+v, not the hold of token %d", h, holds[0].Token())
		}
	}
}

func tryLeavesNothing(e *env.Env) {
	clients, key := e.Clients(2), e.Key("item")
	writer := write(e, clients[0], key)
	e.Busy(clients[1].Reader(), key)
	e.Busy(clients[1].RW, key)
	release(e, writer)
	reader := read(e, clients[0], key)
	for _, c := range clients {
		e.Busy(c.RW, key) // a try is no writer that waits
		e.Free(c.Reader(), key)
	}
	release(e, reader)
	for _, c := range clients {
		e.Free(c.RW, key)
	}
}
