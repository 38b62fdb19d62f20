package rw

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/recording"
	"github.com/lockmw/go/lockmw"
)

var faults = []env.Scenario{
	env.Case("flushing scripts every ten operations has no effect", scriptFlushOfBothSides, env.TwoSided|env.OnServer|env.Alone|env.Sample),
	env.Case("FLUSHALL ends readers' holds in time, and waiters queue again", flushedReaders, env.TwoSided|env.OnServer|env.Alone),
	env.Case("FLUSHALL under load of both sides loses no waiter", flushedUnderLoad, env.TwoSided|env.OnServer|env.Alone),
	env.Case("a killed server ends readers' holds in time", killedServerWithReaders, env.TwoSided|env.InRealTime|env.Alone),
	env.Case("readers' holds are renewed and released without free memory", fullServerWithReaders, env.TwoSided|env.InRealTime|env.Alone),
	env.Case("foreign values at the readers' keys are left alone", strangersAmongReaders, env.TwoSided|env.OnServer|env.Shares|env.Sample),
}

func scriptFlushOfBothSides(e *env.Env) {
	clients, key := e.Clients(3), e.Key("item")
	var n atomic.Int32
	var wg sync.WaitGroup
	for i := range 12 {
		c := clients[i%len(clients)]
		l := c.Reader()
		if i%4 == 0 {
			l = c.RW
		}
		wg.Go(func() {
			for range 10 {
				_, held, err := e.Rec.Lock(e.Ctx, l, key)
				if err != nil {
					e.T.Errorf("Lock: %v", err)
					return
				}
				if n.Add(1)%10 == 0 {
					e.Server.FlushScripts()
				}
				if !held.Reads {
					downgrade(e, c, held)
				}
				release(e, held)
			}
		})
	}
	wg.Wait()
	e.Free(clients[0].RW, key)
}

func flushedReaders(e *env.Env) {
	lease := e.Ample(600 * time.Millisecond)
	clients, key := e.Clients(3), e.Key("item")
	holds := []*recording.Held{read(e, clients[0], key, lockmw.WithLease(lease)), read(e, clients[1], key, lockmw.WithLease(lease))}
	waiting := []*env.Waiter{e.Wait(clients[0].RW, key), behind(e, clients[1], key), behind(e, clients[2], key)}
	e.Pass(time.Millisecond) // new tokens are seeded from the server's clock
	e.Flush(false)
	start, token := time.Now(), holds[0].Token()
	for left := waiting; len(left) > 0; {
		w := env.First(2*env.PollInterval+e.Soon-e.Pace.Since(start), left)
		_, next := w.Gets(0)
		if next.Token() <= token {
			e.T.Errorf("token %d after %d", next.Token(), token)
		}
		release(e, next)
		left = env.Without(left, w)
	}
	for _, h := range holds {
		e.Lost(h.Ctx, h)
	}
	if took := e.Pace.Since(start); took > max(lease/2, 2*env.PollInterval)+e.Soon {
		e.T.Errorf("the readers noticed only after %v that the server had lost their holds", took)
	}
	e.Free(clients[2].RW, key)
}

func flushedUnderLoad(e *env.Env) {
	clients := e.Clients(4)
	e.FlushUnderLoad(e.Key("item"), 15, 3, false, func(n int) lockmw.Locker {
		if n%8 < 2 {
			return clients[n%4].RW
		}
		return clients[n%4].Reader()
	})
}

func killedServerWithReaders(e *env.Env) {
	lease := e.Ample(600 * time.Millisecond)
	clients, key := e.Clients(2), e.Key("item")
	holds := append(readsOf(e, clients[0], key, 3, lockmw.WithLease(lease)), read(e, clients[1], key, lockmw.WithLease(2*lease)))
	start := time.Now()
	fixed := read(e, clients[1], key, lockmw.WithFixedLease(lease/2))
	w, behind := e.Wait(clients[0].RW, key), behind(e, clients[1], key)
	e.Rec.Lose(false, func() int64 {
		e.Server.Kill()
		return time.Now().UnixMicro()
	})
	killed := time.Now()
	endsAt(e, fixed, start.Add(lease/2))
	for i, h := range holds {
		if !e.Ends(h.Ctx) {
			return
		}
		e.Is("the cause of the context's end", context.Cause(h.Ctx), lockmw.ErrLost)
		if late := time.Since(h.Deadline()); late < 0 || i == 0 && e.Pace.Since(h.Deadline()) > e.Soon {
			e.T.Errorf("a hold ended %v after its deadline", late)
		}
	}
	if took := e.Pace.Since(killed); took > 2*lease+e.Soon {
		e.T.Errorf("the holds ended %v after the server; their leases were at most %v", took, 2*lease)
	}
	e.Server.Restart(e.TB)
	for _, h := range holds {
		e.Is("Unlock of a lost hold", h.Unlock(), lockmw.ErrLost)
	}
	for left := []*env.Waiter{w, behind}; len(left) > 0; { // in any order
		next := env.First(3*env.PollInterval+e.Soon, left)
		_, held := next.Gets(0)
		release(e, held)
		left = env.Without(left, next)
	}
}

func fullServerWithReaders(e *env.Env) {
	lease := e.Ample(600 * time.Millisecond)
	a, b, key := e.Client(), e.Client(), e.Key("item")
	held := write(e, a, key, lockmw.WithLease(lease))
	holds := []*recording.Held{held}
	readers := []*env.Waiter{e.Wait(a.Reader(), key, lockmw.WithLease(lease)), e.Wait(b.Reader(), key, lockmw.WithLease(lease))}
	w := e.Wait(b.RW, key)
	cancelled := e.Wait(a.Reader(), key)
	readersQueued(e, key, 3)
	e.Server.Fill()
	cancelled.Cancel()
	cancelled.Fails(e.Soon, context.Canceled)
	a.Wire.Record()
	b.Wire.Record()
	holds = append(holds, admitted(e, len(readers), func() { downgrade(e, a, held) }, readers)...)
	e.Pass(max(lease+lease/4, env.DeadAfter+2*env.BeatInterval)) // longer than the leases, and than a dead waiter stays queued
	// A refused renewal or poll may have been repeated successfully, so rerun all of them.
	for _, c := range []*env.Client{a, b} {
		e.Server.Rerun(c.Wire.Sent(), key, func() {})
	}
	e.Busy(a.RW, key)
	e.Busy(b.Reader(), key)
	alive(e, holds...)
	w.IsWaiting()
	release(e, holds...)
	e.Unlock(w.Gets(e.Soon))
}

func strangersAmongReaders(e *env.Env) {
	for kind := range env.Plants {
		if kind == "zset" {
			continue // members of a sorted set count as tickets, even foreign ones
		}
		c, key := e.Client(), e.Key("item")
		held := write(e, c, key)
		check := e.Server.Plant(kind, e.Server.RedisKey(key)+":readqueue")
		_, _, err := e.Rec.Lock(e.Ctx, e.Client().Reader(), key)
		e.Is("RLock with a "+kind+" in the way", err, lockmw.ErrWrongType)
		if err := held.Unlock(); err != nil {
			e.Is("Unlock with a "+kind+" in the way", err, lockmw.ErrWrongType)
		}
		if e.Server.Admin.Exists(e.Ctx, e.Server.RedisKey(key)).Val() != 0 {
			e.T.Errorf("a %s in the way prevents the release", kind)
		}
		check()
	}
}
