package fair

import (
	"slices"
	"sync"
	"time"

	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/locktest/env"
)

var cost = []env.Scenario{
	env.Case("an acquisition among 1000 waiters costs at most three commands, including polls", fewCommands, env.Fair|env.OnServer|env.Shares|env.Costly),
}

func fewCommands(e *env.Env) {
	const most = 3
	clients, key := e.Clients(4), e.Key("item")
	work := time.Millisecond // long enough for polls to become due
	if e.Config.Bubble {
		work *= 4
	}
	for _, c := range clients {
		c.Warm()
	}
	ctx, held := e.Lock(clients[0], key)
	for _, c := range clients {
		c.Wire.Record()
	}
	var wg sync.WaitGroup
	n := min(1000, many(e))
	for i := range n {
		wg.Go(func() {
			ctx, held, err := e.Rec.Lock(e.Ctx, clients[i%len(clients)], key)
			if err != nil {
				e.T.Errorf("Lock: %v", err)
				return
			}
			e.Pass(work)
			e.Unlock(ctx, held)
		})
	}
	e.Server.TicketsQueued(key, int64(n))
	start := time.Now()
	e.Unlock(ctx, held)
	wg.Wait()
	end := time.Now()
	took, delayed := end.Sub(start), end.Sub(start)-e.Pace.Between(start, end)
	sent := make(map[string]int)
	total := 0
	for _, c := range clients {
		for _, command := range c.Wire.Sent() {
			if slices.Contains([]string{"hello", "client", "subscribe", "ping", "info"}, command[0]) {
				continue // about connections and the server
			}
			sent[command[0]]++
			total++
		}
	}
	e.TB.Logf("%d commands for %d acquisitions within %v, of which the machine caused %v: %v", total, n, took, delayed, sent)
	// While the machine delays the work, each client's poll still asks for all its tickets, in several commands.
	polls := int(delayed/env.PollInterval) * len(clients) * (1 + n/len(clients)/script.MaxPeeked)
	if total > most*n+polls {
		e.T.Errorf("%d commands for %d acquisitions: %v", total, n, sent)
	}
}
