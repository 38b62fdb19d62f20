package locktest

import (
	"errors"

	"github.com/lockmw/go/lockmw"
)

var readWriteTries = []scenario{
	{"a try succeeds or fails at once in every state of the lock", triesInEveryState, twoSided | shares},
	{"a try that fails names who is in the way", tryNamesHolders, twoSided | shares | sample},
	{"a try for reading does not overtake a writer that waits", tryBehindWriter, twoSided | shares | sample},
	{"a try leaves nothing behind that keeps others out", tryLeavesNothing, twoSided | shares | sample},
}

// tries checks whether a try for reading, and one for writing, gets the lock.
func (e *env) tries(state string, c *client, key string, reads, writes bool) {
	e.t.Helper()
	for _, try := range []struct {
		l    lockmw.Locker
		want bool
	}{{c.reader(), reads}, {c.rw, writes}} {
		_, held, err := e.rec.Lock(e.ctx, try.l, key, lockmw.WithWait(0))
		switch {
		case err == nil:
			if !try.want {
				e.t.Errorf("%s: a try gets the lock, for reading: %v", state, held.reads)
			}
			e.release(held)
		case try.want:
			e.t.Errorf("%s: a try fails: %v", state, err)
		default:
			e.is(state, err, lockmw.ErrBusy)
		}
	}
}

func triesInEveryState(e *env) {
	holder, waiter, a := e.client(), e.client(), e.client()
	for _, c := range []*client{a, holder, waiter} {
		key := e.key("item")
		e.tries("free", c, key, true, true)
		reader := e.read(holder, key)
		e.tries("read", c, key, true, false)
		w := e.wait(waiter.rw, key)
		e.heard(c, key)
		e.tries("read, with a writer waiting", c, key, false, false)
		r := e.wait(waiter.reader(), key)
		e.tries("read, with a writer and a reader waiting", c, key, false, false)
		e.release(reader)
		_, writer := w.gets(e.soon)
		e.tries("written, with a reader waiting", c, key, false, false)
		e.release(writer)
		_, reader = r.gets(e.soon)
		e.tries("read by who has waited", c, key, true, false)
		e.release(reader)
		e.tries("free again", c, key, true, true)
		writer = e.write(holder, key)
		e.tries("written", c, key, false, false)
		e.downgrade(holder, writer)
		e.tries("downgraded", c, key, true, false)
		e.release(writer)
		e.tries("free at last", c, key, true, true)
	}
}

func tryNamesHolders(e *env) {
	clients, key := e.clients(3), e.key("item")
	holds := []*Held{e.read(clients[0], key), e.read(clients[1], key)}
	e.names(clients[2].rw, key, holds...)
	w := e.wait(clients[2].rw, key)
	e.names(clients[2].reader(), key, holds...)
	e.release(holds...)
	_, writer := w.gets(e.soon)
	for _, l := range []lockmw.Locker{clients[0].reader(), clients[0].rw} {
		e.names(l, key, writer)
	}
	e.release(writer)
}

// names checks that a try fails with the holders' tokens in its error.
func (e *env) names(l lockmw.Locker, key string, holds ...*Held) {
	e.t.Helper()
	_, _, err := e.rec.Lock(e.ctx, l, key, lockmw.WithWait(0))
	failure, ok := errors.AsType[*lockmw.Error](err)
	if !ok {
		e.t.Errorf("a try: %v", err)
		return
	}
	if len(failure.Holders) != len(holds) {
		e.t.Errorf("in the way are %d, not %+v", len(holds), failure.Holders)
		return
	}
	for _, h := range failure.Holders {
		if h.Token != holds[0].Token() || h.Process == "" || h.Owner == "" {
			e.t.Errorf("in the way is %+v, not the hold of token %d", h, holds[0].Token())
		}
	}
}

func tryBehindWriter(e *env) {
	clients, key := e.clients(2), e.key("item")
	reader := e.read(clients[0], key)
	w := e.wait(clients[1].rw, key)
	e.heard(clients[0], key)
	for range 20 {
		for _, c := range clients {
			e.busy(c.reader(), key)
		}
	}
	w.isWaiting()
	e.release(reader)
	e.unlock(w.gets(e.soon))
}

func tryLeavesNothing(e *env) {
	clients, key := e.clients(2), e.key("item")
	writer := e.write(clients[0], key)
	e.busy(clients[1].reader(), key)
	e.busy(clients[1].rw, key)
	e.release(writer)
	reader := e.read(clients[0], key)
	for _, c := range clients {
		e.busy(c.rw, key) // a try is no writer that waits
		e.free(c.reader(), key)
	}
	e.release(reader)
	for _, c := range clients {
		e.free(c.rw, key)
	}
}
