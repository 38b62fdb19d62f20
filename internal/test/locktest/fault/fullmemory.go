package fault

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

var fullMemory = []env.Scenario{
	env.Case("with full memory, new locks are refused with a clear error", fullRefuses, env.InRealTime|env.Alone|env.Sample),
	env.Case("with full memory, holds can be released", fullReleases, env.InRealTime|env.Alone|env.Sample),
	env.Case("with full memory, locks are handed over", fullHandsOver, env.InRealTime|env.Alone|env.Sample),
	env.Case("with full memory, holds are renewed and waiters stay queued", fullRenews, env.InRealTime|env.Alone),
	env.Case("with full memory, the lock of an expired hold is granted", fullExpires, env.InRealTime|env.Alone),
	env.Case("with full memory, waits can be cancelled", fullCancels, env.InRealTime|env.Alone|env.Sample),
	env.Case("with full memory, Close releases holds", fullCloses, env.InRealTime|env.Alone|env.Sample),
	env.Case("an eviction policy that affects locks is logged once", warnsOfEviction, env.InRealTime|env.Alone|env.Sample),
}

func fullRefuses(e *env.Env) {
	c, key := e.Client(), e.Key("user")
	taken := e.Key("user")
	ctx, held := e.Lock(e.Client(), taken)
	e.Server.Fill()
	for _, k := range []string{key, taken} { // taken: queueing fails as well
		for _, wait := range []time.Duration{0, lockmw.Forever} {
			if k == taken && wait == 0 {
				continue // TryLock needs no memory: it returns ErrBusy
			}
			l := lockmw.Locker(c)
			if k == taken {
				l = c.Rival
			}
			start := time.Now()
			_, _, err := l.Lock(e.Ctx, k, lockmw.WithWait(wait))
			e.Is("Lock with a full memory", err, lockmw.ErrUnavailable)
			if err != nil && !strings.Contains(err.Error(), "OOM") {
				e.T.Errorf("the error lacks the server's reply: %v", err)
			}
			if errors.Is(err, lockmw.ErrBusy) {
				e.T.Errorf("an OOM error is reported as a busy lock: %v", err)
			}
			if took := e.Pace.Since(start); took > e.Soon {
				e.T.Errorf("the call took %v", took)
			}
		}
	}
	e.Busy(c, taken)
	e.Unlock(ctx, held)
	e.Server.SetMaxMemory("0")
	e.Free(c, key)
	e.Free(c, taken)
}

func fullReleases(e *env.Env) {
	c, key := e.Client(), e.Key("user")
	ctx, held := e.Lock(c, key)
	_, nested, err := c.Lock(ctx, key)
	if err != nil {
		e.T.Fatal(err)
	}
	e.Server.Fill()
	if err := nested.Unlock(); err != nil {
		e.T.Errorf("Unlock of a nested hold: %v", err)
	}
	e.Unlock(ctx, held)
	if e.Server.Admin.Exists(e.Ctx, e.Server.RedisKey(key)).Val() != 0 {
		e.T.Error("the lock is still there")
	}
}

func fullHandsOver(e *env.Env) {
	a, b, c, key := e.Client(), e.Client(), e.Client(), e.Key("user")
	ctx, held := e.Lock(a, key)
	waiters := []*env.Waiter{e.Wait(b, key), e.Wait(b, key), e.Wait(c, key)}
	e.Server.TicketsQueued(key, ticketsOf(e, 2, 3))
	e.Server.Fill()
	e.Unlock(ctx, held)
	for left := waiters; len(left) > 0; {
		w := env.First(e.Soon, left)
		e.Unlock(w.Gets(0))
		left = env.Without(left, w)
	}
}

// ticketsOf returns how many tickets these calls have in the queue.
func ticketsOf(e *env.Env, processes, calls int64) int64 {
	if e.Config.Mode == env.ClientMode {
		return processes
	}
	return calls
}

func fullRenews(e *env.Env) {
	lease := e.Ample(600 * time.Millisecond)
	a, b, key := e.Client(), e.Client(), e.Key("user")
	ctx, held := e.Lock(a, key, lockmw.WithLease(lease))
	w := e.Wait(b, key)
	e.Server.TicketsQueued(key, 1)
	e.Server.Fill()
	a.Wire.Record()
	b.Wire.Record()
	time.Sleep(env.DeadAfter + 2*env.BeatInterval) // longer than the lease, and than a dead waiter stays queued
	// A refused beat would stay unnoticed: the other beats are refused as well, so no process is considered dead.
	e.Server.Rerun(a.Wire.Sent(), key, func() {})
	e.Server.Rerun(b.Wire.Sent(), key, func() {})
	if err := ctx.Err(); err != nil {
		e.T.Errorf("the hold has ended: %v", context.Cause(ctx))
	}
	w.IsWaiting()
	e.Server.TicketsQueued(key, 1)
	e.Unlock(ctx, held)
	e.Unlock(w.Gets(e.Soon))
}

func fullExpires(e *env.Env) {
	lease := e.Ample(600 * time.Millisecond)
	a, b, key := e.Client(), e.Client(), e.Key("user")
	ctx, held := e.Lock(a, key, lockmw.WithFixedLease(lease))
	w := e.Wait(b, key)
	e.Server.TicketsQueued(key, 1)
	e.Server.Fill()
	if err := held.Extend(ctx, lease); err != nil {
		e.T.Errorf("Extend: %v", err)
	}
	e.Unlock(w.Gets(lease + env.PollInterval + e.Soon))
	e.Lost(ctx, held)
}

func fullCancels(e *env.Env) {
	a, b, key := e.Client(), e.Client(), e.Key("user")
	ctx, held := e.Lock(a, key)
	w := e.Wait(b, key)
	e.Server.TicketsQueued(key, 1)
	e.Server.Fill()
	w.Cancel()
	w.Fails(e.Soon, lockmw.ErrBusy, context.Canceled)
	e.Server.TicketsQueued(key, 0)
	e.Unlock(ctx, held)
}

func fullCloses(e *env.Env) {
	a, key := e.Client(), e.Key("user")
	_, held := e.Lock(a, key)
	e.Server.Fill()
	if err := a.Close(); err != nil {
		e.T.Errorf("Close: %v", err)
	}
	e.Is("Unlock after Close", held.Unlock(), lockmw.ErrClosed)
	e.Eventually(e.Soon, func() string {
		if e.Server.Admin.Exists(e.Ctx, e.Server.RedisKey(key)).Val() == 0 {
			return ""
		}
		return "the lock is still there"
	})
}

func warnsOfEviction(e *env.Env) {
	e.Server.SetMaxMemory("100mb")
	for policy, warnings := range map[string]int{"noeviction": 0, "volatile-ttl": 1, "allkeys-lru": 1} {
		if err := e.Server.Admin.ConfigSet(e.Ctx, "maxmemory-policy", policy).Err(); err != nil {
			e.T.Fatal(err)
		}
		var log usertest.Output
		c := e.Client(lockmw.WithLogger(log.Logger()))
		for range 5 {
			e.Unlock(e.Lock(c, e.Key("user")))
		}
		e.Eventually(env.Patience, func() string {
			if strings.Count(log.String(), "maxmemory-policy=") < warnings {
				return policy + ": no warning"
			}
			return ""
		})
		if err := c.Close(); err != nil { // ends the check of the policy
			e.T.Error(err)
		}
		if got := log.String(); strings.Count(got, "maxmemory-policy=") != warnings {
			e.T.Errorf("%s: logged %q, want %d warnings", policy, got, warnings)
		}
	}
}
