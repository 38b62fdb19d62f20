package fault

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/recording"
	"github.com/lockmw/go/lockmw"
)

// From the other side, a wrong client clock looks like a wrong server clock. The two are never compared: a hold is measured by
// the client's monotonic clock, a lease by the server's clock. So only a step of the server's clock has an effect: leases end
// early or late.
var steppedClock = []env.Scenario{
	env.Case("a server clock 60 s behind has no effect", func(e *env.Env) { clockOff(e, -time.Minute) }, env.OnServer|env.InBubble),
	env.Case("a server clock 60 s ahead has no effect", func(e *env.Env) { clockOff(e, time.Minute) }, env.OnServer|env.InBubble),
	env.Case("a server clock years ahead has no effect", func(e *env.Env) { clockOff(e, 10*365*24*time.Hour) }, env.OnServer|env.InBubble),
	env.Case("the client's clock is never sent", clockNeverSent, env.OnServer|env.OneNode|env.InBubble),
	env.Case("a step back does not affect holds, waiters and tokens", steppedBackwards, env.OnServer|env.InBubble|env.Costly),
	env.Case("a step back under load keeps tokens increasing", steppedBackwardsUnderLoad, env.OnServer|env.InBubble),
	env.Case("a step back keeps a dead holder's lock longer by the step", steppedBackwardsAtDeath, env.OnServer|env.OneNode|env.InBubble),
	env.Case("a step forward does not affect longer leases and the queue", steppedForwards, env.OnServer|env.InBubble|env.Costly),
	env.Case("a step forward ends shorter leases, and the next renewal reports it", steppedOverLease, env.OnServer|env.OneNode|env.InBubble),
	env.Case("a step forward past all expiry times loses no waiter", steppedOverAll, env.OnServer|env.OneNode|env.InBubble),
	env.Case("steps back and forward under load keep tokens increasing", steppedUnderLoad, env.OnServer|env.OneNode|env.InBubble),
}

func clockOff(e *env.Env, by time.Duration) {
	const lease = 900 * time.Millisecond
	clock := e.Server.NewClock(e.TB)
	clock.Step(by)
	a, b, key := e.Client(), e.Client(), e.Key("item")
	e.Contend([]*env.Client{a, b}, key, 8, 20, func(*recording.Held) { e.Pass(100 * time.Microsecond) })

	ctx, held := e.Lock(a, key, lockmw.WithLease(lease))
	e.Pass(5 * lease)
	if err := ctx.Err(); err != nil {
		e.T.Errorf("the hold has ended: %v", context.Cause(ctx))
	}
	e.Unlock(ctx, held)

	start := time.Now()
	ctx, held = e.Lock(a, key, lockmw.WithFixedLease(lease))
	if d := held.Deadline().Sub(start); d > lease || d < lease*9/10 {
		e.T.Errorf("a lease of %v lasts %v", lease, d)
	}
	w := e.Wait(b, key)
	e.Ends(ctx)
	e.Unlock(w.Gets(lease/10 + e.Soon))
	if early := held.Deadline().Sub(w.At); early > 0 {
		e.T.Errorf("granted %v before the deadline of the previous hold", early)
	}
	e.Lost(ctx, held)
}

func clockNeverSent(e *env.Env) {
	const lease = 900 * time.Millisecond
	clock := e.Server.NewClock(e.TB)
	clock.Step(10 * 365 * 24 * time.Hour) // times of the server may be sent back to it
	a, b, key := e.Client(), e.Client(), e.Key("item")
	for _, c := range []*env.Client{a, b} {
		c.Wire.Record()
	}
	ctx, held := e.Lock(a, key, lockmw.WithLease(lease))
	w, cancelled := e.Wait(b, key), e.Wait(b, key)
	e.Pass(2 * lease)
	cancelled.Cancel()
	cancelled.Fails(e.Soon, context.Canceled)
	if err := held.Extend(ctx, lease); err != nil {
		e.T.Error(err)
	}
	e.Unlock(ctx, held)
	e.Unlock(w.Gets(e.Soon))
	sent := append(a.Wire.Sent(), b.Wire.Sent()...)
	scripts := 0
	for _, c := range sent {
		if c.IsScript() {
			scripts++
		}
		if word := env.WordLikeNow(c); word != "" {
			e.T.Errorf("%s was sent with the client's clock reading %s", c[0], word)
		}
	}
	if scripts < 8 {
		e.T.Errorf("only %d scripts were run", scripts)
	}
}

func steppedBackwards(e *env.Env) {
	clock := e.Server.NewClock(e.TB)
	c, key := e.Client(), e.Key("item")
	ctx, held := e.Lock(c, key)
	waiters := waitEach(e, 3, key)
	for range 3 {
		clock.Step(-env.ClockStep)
		e.Pass(20 * time.Second)
	}
	e.Pass(2 * env.ClockStep) // well past the TTL of the queue
	if err := ctx.Err(); err != nil {
		e.T.Errorf("the hold has ended: %v", context.Cause(ctx))
	}
	e.Unlock(ctx, held)
	runAfterStep(e, held, waiters)
}

func steppedBackwardsUnderLoad(e *env.Env) {
	clock := e.Server.NewClock(e.TB)
	key := e.Key("item")
	rounds := env.Fewer(60)
	var n atomic.Int32 // readers run in parallel
	e.Contend(e.Clients(3), key, 12, rounds, func(*recording.Held) {
		e.Pass(time.Millisecond)
		if n.Add(1)%60 == 0 {
			clock.Step(-env.ClockStep)
		}
	})
	if grants := e.Rec.Grants(key); grants != 12*rounds {
		e.T.Errorf("%d grants, want %d", grants, 12*rounds)
	}
}

func steppedBackwardsAtDeath(e *env.Env) {
	const lease = 900 * time.Millisecond
	clock := e.Server.NewClock(e.TB)
	dead, gone, c, key := e.Client(), e.Client(), e.Client(), e.Key("item")
	e.Lock(dead, key, lockmw.WithLease(lease))
	first, next := e.Wait(gone, key), e.Wait(c, key)
	start := time.Now()
	var closed sync.WaitGroup
	for c, left := range map[*env.Client]error{dead: lockmw.ErrUnavailable, gone: nil} {
		c.Wire.Cut()
		closed.Go(func() { // Close tries to release the holds for longer than their leases
			if err := c.Close(); !errors.Is(err, left) {
				e.T.Errorf("Close: %v, want %v", err, left)
			}
		})
	}
	defer closed.Wait()
	first.Fails(e.Soon, lockmw.ErrClosed)
	clock.Step(-env.ClockStep)
	// The closed client counts as alive, because it was last seen in the future.
	e.Unlock(next.Gets(env.ClockStep + lease + env.AcceptWindow + env.PollInterval + e.Soon))
	if took := next.At.Sub(start); took < env.ClockStep {
		e.T.Errorf("the dead holder's lock was granted after %v", took)
	}
}

// underQueueTTL is less than the TTL of a queue, which is a minute after the last beat of its waiters.
const underQueueTTL = 55 * time.Second

func steppedForwards(e *env.Env) {
	clock := e.Server.NewClock(e.TB)
	c, key := e.Client(), e.Key("item")
	ctx, held := e.Lock(c, key, lockmw.WithLease(5*time.Minute))
	waiters := waitEach(e, 3, key)
	for range 3 {
		clock.Step(underQueueTTL)
		e.Pass(2 * time.Minute)
	}
	if err := ctx.Err(); err != nil {
		e.T.Errorf("the hold has ended: %v", context.Cause(ctx))
	}
	clock.Step(underQueueTTL) // the last beat of the waiters is now this old
	e.Unlock(ctx, held)
	runAfterStep(e, held, waiters)
}

func steppedOverLease(e *env.Env) {
	const lease = 30 * time.Second
	clock := e.Server.NewClock(e.TB)
	c, key := e.Client(), e.Key("item")
	ctx, held := e.Lock(c, key, lockmw.WithLease(lease))
	waiters := waitEach(e, 3, key)
	e.Rec.Forfeit() // the server ends the lease early, which the holder cannot know
	clock.Step(underQueueTTL)
	start := time.Now()
	next, nextHeld := waiters[0].Gets(env.PollInterval + e.Soon)
	if nextHeld.Token() <= held.Token() {
		e.T.Errorf("token %d after %d", nextHeld.Token(), held.Token())
	}
	e.Lost(ctx, held)
	if took := e.Pace.Since(start); took > lease/3+e.Soon {
		e.T.Errorf("the holder noticed after %v", took)
	}
	e.Unlock(next, nextHeld)
	env.RunInOrder(waiters[1:])
}

func steppedOverAll(e *env.Env) {
	clock := e.Server.NewClock(e.TB)
	c, key := e.Client(), e.Key("item")
	ctx, held := e.Lock(c, key)
	waiters := waitEach(e, 3, key)
	e.Rec.Forfeit()
	clock.Step(time.Hour)
	runInAnyOrder(e, env.PollInterval+e.Soon, held, waiters)
	e.Lost(ctx, held)
}

// runAfterStep lets waiting calls take the lock in order. Over several nodes there is no order: the calls wait at the node
// whose clock was stepped, which cannot form a majority with the others.
func runAfterStep(e *env.Env, before *recording.Held, waiters []*env.Waiter) {
	e.T.Helper()
	if e.Config.OverNodes != nil {
		runInAnyOrder(e, env.PollInterval+e.Soon, before, waiters)
		return
	}
	env.RunInOrder(waiters)
}

func steppedUnderLoad(e *env.Env) {
	clock := e.Server.NewClock(e.TB)
	key := e.Key("item")
	clients := make([]*env.Client, 4)
	for i := range clients {
		clients[i] = e.Client(lockmw.WithLocalPasses(0))
	}
	rounds := env.Fewer(60)
	var ops atomic.Int32
	var wg sync.WaitGroup
	for i := range 12 {
		l := clients[i%len(clients)].Nth(i / len(clients))
		wg.Go(func() {
			for range rounds {
				_, held, err := e.Rec.Lock(e.Ctx, l, key)
				if err != nil {
					e.T.Errorf("Lock: %v", err)
					return
				}
				e.Pass(time.Millisecond)
				switch ops.Add(1) % 60 {
				case 30:
					clock.Step(-env.ClockStep)
				case 0: // ends the leases
					e.Rec.Lose(false, func() int64 { return clock.Step(env.ClockStep).UnixMicro() })
				}
				if err := held.Unlock(); err != nil && !errors.Is(err, lockmw.ErrLost) {
					e.T.Errorf("Unlock: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if n := int(ops.Load()); n != 12*rounds {
		e.T.Errorf("%d grants, want %d", n, 12*rounds)
	}
	e.Free(clients[0], key)
}
