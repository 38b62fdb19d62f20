package fault

import (
	"context"
	"maps"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/recording"
	"github.com/lockmw/go/lockmw"
)

var flushes = []env.Scenario{
	env.Case("flushing scripts every ten operations has no effect", scriptFlush, env.OnServer|env.Alone|env.Sample),
	env.Case("flushing scripts does not affect background commands", scriptFlushInBackground, env.OnServer|env.Alone),
	env.Case("FLUSHALL under load keeps tokens increasing", func(e *env.Env) { flushAll(e, 0) }, env.OnServer|env.Alone),
	env.Case("FLUSHALL under load loses no waiter", func(e *env.Env) { flushAll(e, env.LocalPasses) }, env.OnServer|env.Alone|env.Costly),
	env.Case("waiters queue again after FLUSHALL", flushWhileQueued, env.OnServer|env.Alone),
}

func scriptFlush(e *env.Env) {
	key := e.Key("item")
	var n atomic.Int32
	e.Contend(e.Clients(3), key, 12, 20, func(*recording.Held) {
		if n.Add(1)%10 == 0 {
			e.Server.FlushScripts()
		}
	})
	if grants := e.Rec.Grants(key); grants != 12*20 {
		e.T.Errorf("%d grants, want %d", grants, 12*20)
	}
}

func scriptFlushInBackground(e *env.Env) {
	lease := e.Ample(600 * time.Millisecond)
	a, b, key := e.Client(), e.Client(), e.Key("item")
	renewals := make(chan error, 100)
	ctx, held := e.Lock(a, key, lockmw.WithLease(lease), lockmw.WithObserver(&lockmw.Observer{
		Renewed: func(_ context.Context, _ lockmw.Attempt, err error) { renewals <- err },
	}))
	w, cancelled := e.Wait(a, key), e.Wait(b, key)
	e.Server.TicketsQueued(key, ticketsOf(e, 1, 2))
	for range 3 {
		seen := e.Server.Alive(key)
		e.Server.FlushScripts()
		if err := env.Renewal(e, renewals); err != nil {
			e.T.Errorf("renewal: %v", err)
		}
		e.Server.FlushScripts()
		e.Eventually(env.BeatInterval+e.Soon, func() string {
			if maps.Equal(seen, e.Server.Alive(key)) {
				return "no beat has arrived"
			}
			return ""
		})
	}
	e.Server.FlushScripts()
	cancelled.Cancel()
	e.Server.TicketsQueued(key, ticketsOf(e, 0, 1))
	e.Server.FlushScripts()
	if err := held.Extend(ctx, lease); err != nil {
		e.T.Error(err)
	}
	e.Server.FlushScripts()
	e.Unlock(ctx, held)
	e.Server.FlushScripts()
	e.Unlock(w.Gets(e.Soon))
	cancelled.Fails(e.Soon, context.Canceled)
}

// flushAll runs FLUSHALL while four processes contend.
func flushAll(e *env.Env, passes int) {
	clients := make([]*env.Client, 4)
	for i := range clients {
		clients[i] = e.Client(lockmw.WithLocalPasses(passes))
	}
	e.FlushUnderLoad(e.Key("item"), 30, 5, passes > 0, func(n int) lockmw.Locker {
		return clients[n%len(clients)].Nth(n / len(clients))
	})
}

func flushWhileQueued(e *env.Env) {
	a, b, c, key := e.Client(), e.Client(), e.Client(), e.Key("item")
	ctx, held := e.Lock(a, key)
	waiters := []*env.Waiter{e.Wait(b, key), e.Wait(b, key), e.Wait(c, key), e.Wait(c, key)}
	e.Pass(time.Millisecond) // new tokens are seeded from the server's clock
	e.Flush(false)
	runInAnyOrder(e, 2*env.PollInterval+e.Soon, held, waiters)
	if err := held.Unlock(); err != nil {
		e.Is("Unlock of a lock that was flushed", err, lockmw.ErrLost)
	}
	_ = ctx
}
