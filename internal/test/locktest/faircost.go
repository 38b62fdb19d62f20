package locktest

import (
	"slices"
	"sync"
	"time"
)

var fairCost = []scenario{
	{"an acquisition costs at most three commands with 1000 who wait, polls included", fewCommands, fair | server | shares | costly},
}

func fewCommands(e *env) {
	const most = 3
	clients, key := e.clients(4), e.key("item")
	work := time.Millisecond // so long that polls are due
	if e.cfg.Bubble {
		work *= 4
	}
	for _, c := range clients {
		e.warm(c)
	}
	ctx, held := e.lock(clients[0], key)
	for _, c := range clients {
		c.wire.Record()
	}
	var wg sync.WaitGroup
	n := min(1000, e.many())
	for i := range n {
		wg.Go(func() {
			ctx, held, err := e.rec.Lock(e.ctx, clients[i%len(clients)], key)
			if err != nil {
				e.t.Errorf("Lock: %v", err)
				return
			}
			e.pass(work)
			e.unlock(ctx, held)
		})
	}
	e.ticketsQueued(key, int64(n))
	start := time.Now()
	e.unlock(ctx, held)
	wg.Wait()
	took := time.Since(start)
	sent := make(map[string]int)
	total := 0
	for _, c := range clients {
		for _, command := range c.wire.Sent() {
			if slices.Contains([]string{"hello", "client"}, command[0]) {
				continue // the beginning of a connection
			}
			sent[command[0]]++
			total++
		}
	}
	e.tb.Logf("%d commands for %d acquisitions within %v: %v", total, n, took, sent)
	if total > most*n {
		e.t.Errorf("%d commands for %d acquisitions: %v", total, n, sent)
	}
}
