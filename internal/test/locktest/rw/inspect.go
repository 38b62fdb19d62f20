package rw

import (
	"slices"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

var inspected = []env.Scenario{
	env.Case("an Inspector shows readers, writers and waiters in order", inspectsBothSides, env.TwoSided|env.OnServer|env.Shares|env.Sample),
	env.Case("ForceUnlock releases one reader's hold and leaves the others", forcesOneReader, env.TwoSided|env.OnServer|env.Shares),
	env.Case("ForceUnlock of the writer's hold admits waiting readers", forcesWriter, env.TwoSided|env.OnServer|env.Shares|env.Sample),
}

// queueModes returns the modes of the waiters, in queue order.
func queueModes(s lockmw.Status) (modes []string) {
	for _, w := range s.Waiters {
		modes = append(modes, w.Mode)
	}
	return modes
}

func inspectsBothSides(e *env.Env) {
	clients, key := e.Clients(3), e.Key("item")
	first, next := read(e, clients[0], key), read(e, clients[1], key)
	waiting := []*env.Waiter{
		e.Wait(clients[2].RW, key), behind(e, clients[0], key), e.Wait(clients[1].RW, key), behind(e, clients[2], key),
	}
	status := e.Server.Status(key)
	if status.Mode != env.ReadMode || len(status.Holders) != 2 {
		e.T.Errorf("two readers are shown as %q: %+v", status.Mode, status.Holders)
	}
	for _, h := range status.Holders {
		if h.Token != first.Token() || h.Owner == "" || h.Process == "" || h.Since.IsZero() || h.TTL <= 0 {
			e.T.Errorf("a reader of token %d is shown as %+v", first.Token(), h)
		}
	}
	if got, want := queueModes(status), []string{"write", "read", "write", "read"}; !slices.Equal(got, want) {
		e.T.Errorf("the queue has the modes %q, want %q", got, want)
	}
	release(e, first, next)
	_, writer := waiting[0].Gets(e.Soon)
	status = e.Server.Status(key)
	if status.Mode != "write" || len(status.Holders) != 1 || status.Holders[0].Token != writer.Token() {
		e.T.Errorf("a writer of token %d is shown as %q: %+v", writer.Token(), status.Mode, status.Holders)
	}
	if got, want := queueModes(status), []string{"read", "write", "read"}; !slices.Equal(got, want) {
		e.T.Errorf("the queue has the modes %q, want %q", got, want)
	}
	release(e, writer)
	release(e, together(e, []*env.Waiter{waiting[1], waiting[3]})...)
	e.Unlock(waiting[2].Gets(e.Soon))
	if status = e.Server.Status(key); status.Mode != "" || len(status.Holders) > 0 || len(status.Waiters) > 0 {
		e.T.Errorf("a free lock is shown as %+v", status)
	}
}

// briefLease is so short that its holder soon notices a forced release.
func briefLease(e *env.Env) time.Duration { return e.Ample(600 * time.Millisecond) }

func forcesOneReader(e *env.Env) {
	clients, key := e.Clients(2), e.Key("item")
	first := read(e, clients[0], key, lockmw.WithLease(briefLease(e)))
	process := e.Server.Status(key).Holders[0].Process
	next := read(e, clients[1], key)
	w := e.Wait(clients[1].RW, key)
	i := slices.IndexFunc(e.Server.Status(key).Holders, func(h lockmw.Holder) bool { return h.Process == process })
	if i < 0 {
		e.T.Fatal("the first reader is not shown")
	}
	e.Force(key, e.Server.Status(key).Holders[i])
	e.Lost(first.Ctx, first)
	w.IsWaiting()
	alive(e, next)
	release(e, next)
	e.Unlock(w.Gets(e.Soon))
}

func forcesWriter(e *env.Env) {
	clients, key := e.Clients(2), e.Key("item")
	writer := write(e, clients[0], key, lockmw.WithLease(briefLease(e)))
	readers := []*env.Waiter{e.Wait(clients[0].Reader(), key), e.Wait(clients[1].Reader(), key)}
	w := e.Wait(clients[1].RW, key)
	e.Force(key, e.Server.Status(key).Holders[0])
	e.Lost(writer.Ctx, writer)
	holds := together(e, readers)
	w.IsWaiting()
	release(e, holds...)
	e.Unlock(w.Gets(e.Soon))
}
