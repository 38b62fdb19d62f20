package fault

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

var restartedServer = []env.Scenario{
	env.Case("with every write kept, nothing is lost", restartedComplete, env.InRealTime|env.Alone|env.Sample),
	env.Case("with an old snapshot, its stale holder and waiter get no grant", restartedWithSnapshot, env.InRealTime|env.Alone),
	env.Case("without persistence, waiters queue again soon", restartedEmpty, env.InRealTime|env.Alone),
	env.Case("with every write kept, load continues", func(e *env.Env) { loadOverRestarts(e, everything) }, env.InRealTime|env.Alone),
	env.Case("with an old snapshot, load continues", func(e *env.Env) { loadOverRestarts(e, inSnapshot) }, env.InRealTime|env.Alone),
	env.Case("without persistence, load continues", func(e *env.Env) { loadOverRestarts(e, nowhere) }, env.InRealTime|env.Alone),
}

// A persistence is the data that a restarted server has.
type persistence int

const (
	everything persistence = iota // all that it has ever confirmed
	inSnapshot                    // the state of the last save
	nowhere                       // nothing
)

// persist gives a new server this persistence.
func persist(e *env.Env, p persistence) {
	e.T.Helper()
	if p == everything {
		e.Server.Kill()
		e.Server.Restart(e.TB, redistest.Kept...)
	}
}

// save makes a snapshot.
func save(e *env.Env) {
	e.T.Helper()
	if err := e.Server.Admin.Save(e.Ctx).Err(); err != nil {
		e.T.Error(err)
	}
}

// restart kills and restarts the server. passed is as in Recorder.Lose.
func restart(e *env.Env, p persistence, passed bool) {
	e.T.Helper()
	if p == everything {
		e.Server.Kill()
	} else {
		e.Rec.Lose(passed, func() int64 {
			e.Server.Kill()
			return time.Now().UnixMicro() // the server uses the machine's clock
		})
	}
	e.Server.Restart(e.TB)
}

func restartedComplete(e *env.Env) {
	persist(e, everything)
	lease := e.Ample(2 * time.Second) // outlasts the restart
	key := e.Key("item")
	ctx, held := e.Lock(e.Client(), key, lockmw.WithLease(lease))
	waiters := waitEach(e, 3, key)
	before, listened := tickets(e, key), listeners(e)
	restart(e, everything, false)
	deadline := held.Deadline()
	e.Eventually(lease, func() string {
		if held.Deadline().After(deadline) {
			return ""
		}
		return "the lease was not renewed"
	})
	if now := tickets(e, key); !slices.Equal(now, before) {
		e.T.Errorf("the tickets were %q and are %q", before, now)
	}
	e.Eventually(env.Patience, func() string {
		if now := listeners(e); now < listened {
			return fmt.Sprintf("%d processes are subscribed; there were %d", now, listened)
		}
		return ""
	})
	e.Unlock(ctx, held)
	waiters[0].RunsBy(time.Now().Add(env.PollInterval))
	env.RunInOrder(waiters)
}

// listeners returns how many processes are subscribed.
func listeners(e *env.Env) int {
	e.T.Helper()
	channels, err := e.Server.Channels(e.Ctx)
	if err != nil {
		e.T.Error(err)
	}
	return len(channels)
}

func restartedWithSnapshot(e *env.Env) {
	lease := e.Ample(600 * time.Millisecond)
	a, b, c, key := e.Client(), e.Client(), e.Client(), e.Key("item")
	ctx, held := e.Lock(a, key, lockmw.WithLease(lease))
	w := e.Wait(b, key)
	save(e)
	saved := time.Now()
	e.Unlock(ctx, held)
	e.Unlock(w.Gets(e.Soon))
	ctx, held = e.Lock(c, key, lockmw.WithLease(lease))
	restart(e, inSnapshot, false) // the snapshot has a as the holder and b in the queue; neither exists any more
	expires := saved.Add(lease)
	if now := time.Now(); now.After(expires) { // the restart took long
		expires = now
	}
	next := e.Call(e.Ctx, a.Rival, key)
	next.RunsBy(expires.Add(env.PollInterval)) // b replies that it does not wait
	e.Lost(ctx, held)
	e.Unlock(next.Ctx, next.Held)
}

func restartedEmpty(e *env.Env) {
	lease := e.Ample(600 * time.Millisecond)
	key := e.Key("item")
	ctx, held := e.Lock(e.Client(), key, lockmw.WithLease(lease))
	waiters := waitEach(e, 3, key)
	restart(e, nowhere, false)
	restarted := time.Now()
	for left := waiters; len(left) > 0; {
		w := env.First(2*env.PollInterval+e.Soon-e.Pace.Since(restarted), left)
		e.Unlock(w.Ctx, w.Held)
		left = env.Without(left, w)
	}
	e.Lost(ctx, held)
	if took := e.Pace.Since(restarted); took > lease/2+e.Soon {
		e.T.Errorf("the holder noticed only after %v that the server had lost its lock", took)
	}
}

// loadOverRestarts restarts the server while four processes contend.
func loadOverRestarts(e *env.Env, p persistence) {
	const contenders, restarts, lease = 12, 2, time.Second
	persist(e, p)
	clients, sitter, key := e.Clients(4), e.Client(), e.Key("item")
	var stop atomic.Bool
	var turns [contenders]atomic.Int64
	var wg sync.WaitGroup
	for i := range contenders {
		l := clients[i%len(clients)].Nth(i / len(clients))
		wg.Go(func() {
			for !stop.Load() {
				if turn(e, l, key, lease) {
					turns[i].Add(1)
				}
			}
		})
	}
	everyoneRuns := func() {
		e.T.Helper()
		var before [contenders]int64
		for i := range turns {
			before[i] = turns[i].Load()
		}
		e.Eventually(lease+env.AcceptWindow+2*env.PollInterval+e.Soon, func() string {
			for i := range turns {
				if turns[i].Load() < before[i]+2 { // at least one of them began after the restart
					return fmt.Sprintf("contender %d had no turn", i)
				}
			}
			return ""
		})
	}
	for range restarts {
		everyoneRuns()
		if p == inSnapshot {
			save(e)
			everyoneRuns()
		}
		_, held := e.Lock(sitter, key, lockmw.WithLease(lease))
		restart(e, p, true)
		e.Pass(lease / 4) // longer than the others need to reconnect
		if err := held.Unlock(); err != nil && !isLoss(err) {
			e.T.Errorf("Unlock: %v", err)
		}
	}
	everyoneRuns()
	stop.Store(true)
	wg.Wait()
	e.Free(clients[0], key)
}

// turn takes the lock once. It returns false if the server is unavailable.
func turn(e *env.Env, l lockmw.Locker, key string, lease time.Duration) bool {
	_, held, err := e.Rec.Lock(e.Ctx, l, key, lockmw.WithLease(lease))
	if errors.Is(err, lockmw.ErrUnavailable) {
		e.Pass(10 * time.Millisecond)
		return false
	}
	if err != nil {
		e.T.Errorf("Lock: %v", err)
		e.Pass(time.Second)
		return false
	}
	e.Pass(time.Millisecond) // work
	if err := held.Unlock(); err != nil && !isLoss(err) {
		e.T.Errorf("Unlock: %v", err)
	}
	return true
}

// isLoss reports whether err is a valid result of Unlock while the server is unavailable or has lost its data.
func isLoss(err error) bool {
	return errors.Is(err, lockmw.ErrLost) || errors.Is(err, lockmw.ErrUnavailable)
}
