package plain

import (
	"errors"
	"slices"
	"sync"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/recording"
	"github.com/lockmw/go/lockmw"
)

var severalKeys = []env.Scenario{
	env.Case("overlapping sets and single keys exclude each other", overlappingSets, env.Shares|env.Sample|env.Costly),
	env.Case("a set with a busy key is not taken and leaves nothing", busySet, env.Shares|env.Sample),
	env.Case("a set may contain keys that the context holds", nestedSet, env.Shares),
}

// overlappingSets mixes calls for several keys with calls for one key, calls of TryLock, and calls whose LockAll is a sequence
// of Locks, as in an earlier version.
func overlappingSets(e *env.Env) {
	const keys, contenders = 6, 8 // per process
	rounds := env.Fewer(30)
	all, inside := make([]string, keys), make([]env.Room, keys)
	for i := range all {
		all[i] = e.Key("item")
	}
	slices.Sort(all)
	clients := e.Clients(3)
	for _, c := range clients {
		c.Warm()
	}
	var wg sync.WaitGroup
	for i := range contenders * len(clients) {
		c := clients[i%len(clients)]
		l, reads := c.Locker, c.Reads()
		if i%2 == 1 {
			l, reads = c.Rival, false
		}
		if i%3 == 2 {
			l = lockmw.LockerFunc(l.Lock)
		}
		wg.Go(func() {
			for round := range rounds {
				first, n := (5*i+round)%keys, 1+(i+round)%4
				var set []string
				var rooms []*env.Room
				for k := range n {
					set = append(set, all[(first+k)%keys])
					rooms = append(rooms, &inside[(first+k)%keys])
				}
				var opts []lockmw.Option
				if (i+round)%5 == 0 {
					opts = append(opts, lockmw.WithWait(0))
				}
				_, held, err := e.Rec.LockAll(e.Ctx, l, reads, set, opts...)
				if errors.Is(err, lockmw.ErrBusy) && len(opts) > 0 {
					continue
				}
				if err != nil {
					e.T.Errorf("LockAll: %v", err)
					return
				}
				leave := make([]func(), n)
				for k, room := range rooms {
					leave[k] = room.Enter(e, held[k])
				}
				for _, f := range leave {
					f()
				}
				if err := recording.UnlockAll(held); err != nil {
					e.T.Errorf("Unlock: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

func busySet(e *env.Env) {
	c, other := e.Client().Warm(), e.Client()
	keys := []string{e.Key("item"), e.Key("item"), e.Key("item")}
	slices.Sort(keys)
	for _, l := range []*env.Client{c, other} {
		ctx, held := e.Lock(l, keys[1])
		_, _, err := e.Rec.LockAll(e.Ctx, c.Rival, false, keys, lockmw.WithWait(0))
		e.Is("TryLock of a set with a busy key", err, lockmw.ErrBusy)
		if err, ok := errors.AsType[*lockmw.Error](err); ok && err.Key != keys[1] {
			e.T.Errorf("the busy key is %q, want %q", err.Key, keys[1])
		}
		_, _, err = e.Rec.LockAll(e.Ctx, c.Rival, false, keys, lockmw.WithWait(e.Brief()))
		e.Is("an expired wait", err, lockmw.ErrBusy)
		e.Free(other, keys[0])
		e.Free(other, keys[2])
		e.AwaitCancelled(keys[1], func(queued []lockmw.Waiter) bool { return len(queued) == 0 })
		e.Unlock(ctx, held)
	}
	_, all, err := e.Rec.LockAll(e.Ctx, c.Rival, false, keys, lockmw.WithWait(0))
	if err != nil {
		e.T.Fatal(err)
	}
	for _, key := range keys {
		e.Busy(other, key)
	}
	if err := recording.UnlockAll(all); err != nil {
		e.T.Error(err)
	}
}

func nestedSet(e *env.Env) {
	c := e.Client().Warm()
	keys := []string{e.Key("item"), e.Key("item"), e.Key("item")}
	slices.Sort(keys)
	ctx, held := e.Lock(c, keys[1])
	inner, holds, err := lockmw.LockAll(ctx, c.Locker, keys)
	if err != nil {
		e.T.Fatal(err)
	}
	for i, h := range holds {
		if h.Key() != keys[i] {
			e.T.Errorf("hold %d is of %q, want %q", i, h.Key(), keys[i])
		}
		if found, err := lockmw.Held(inner, keys[i]); err != nil || found != h {
			e.T.Errorf("the context has another hold of key %d: %v", i, err)
		}
	}
	if holds[1].Token() != held.Token() {
		e.T.Errorf("the nested hold has token %d, and the outer one %d", holds[1].Token(), held.Token())
	}
	if err := holds.Unlock(); err != nil {
		e.T.Error(err)
	}
	if err := inner.Err(); err == nil {
		e.T.Error("the context of unlocked holds has not ended")
	}
	e.Free(c, keys[0])
	e.Busy(c, keys[1])
	e.Unlock(ctx, held)
}
