package rw

import (
	"context"
	"sync"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/recording"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// Readers of one process share a hold in Redis while no writer waits.
var sharing = []env.Scenario{
	env.Case("many short reads of one process send few commands", readersSendLittle, env.TwoSided|env.OnServer|env.Shares),
	env.Case("readers share a hold again after a writer has given up", shareAfterCancel, env.TwoSided|env.OnServer|env.Shares),
	env.Case("a silent server does not keep joining readers beyond their context", silentJoin, env.TwoSided|env.OnServer|env.Shares),
	env.Case("a writer that readers do not hear of waits for at most 100 ms", writerUnheard, env.TwoSided|env.InRealTime|env.Alone|env.Sample),
}

// sharePeriod is how long readers may join without asking the server for waiting writers.
const sharePeriod = 100 * time.Millisecond

// scripts returns the scripts about key that c has sent since recording began.
func scripts(c *env.Client, key string) (sent []redistest.Command) {
	for _, command := range c.Wire.Sent() {
		if command.IsScript() && command.Concerns(key) {
			sent = append(sent, command)
		}
	}
	return sent
}

// readsOf takes n read holds of key.
func readsOf(e *env.Env, c *env.Client, key string, n int, opts ...lockmw.Option) []*recording.Held {
	e.T.Helper()
	holds := make([]*recording.Held, n)
	for i := range holds {
		holds[i] = read(e, c, key, opts...)
	}
	return holds
}

func readersSendLittle(e *env.Env) {
	const readers, rounds = 16, 200
	c, key := e.Client().Warm(), e.Key("item")
	c.Wire.Record()
	start := time.Now()
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			for range rounds {
				_, held, err := e.Rec.Lock(e.Ctx, c.Reader(), key)
				if err != nil {
					e.T.Errorf("Lock: %v", err)
					return
				}
				e.Pass(time.Millisecond)
				release(e, held)
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	most := 20 + 4*int(took/(100*time.Millisecond)) // the first calls, each sharing period, and moments without readers
	if n := len(scripts(c, key)); n > most {
		e.T.Errorf("%d reads in %v sent %d commands, more than %d", readers*rounds, took, n, most)
	}
}

func shareAfterCancel(e *env.Env) {
	a, b, key := e.Client(), e.Client(), e.Key("item")
	first := read(e, a, key)
	w := e.Wait(b.RW, key)
	heard(e, a, key)
	w.Cancel()
	w.Fails(e.Soon, context.Canceled)
	nobodyQueued(e, key)
	holds := readsOf(e, a, key, 20)
	if n := len(shares(e, key)); n > 4 {
		e.T.Errorf("after a writer gave up, %d readers have %d holds", len(holds), n)
	}
	release(e, holds...)
	release(e, first)
	e.Free(b.RW, key)
}

func silentJoin(e *env.Env) {
	c, other, key := e.Client(), e.Client(), e.Key("item")
	held := read(e, c, key)
	release(e, read(e, c, key))
	c.Wire.Silence()
	e.Pass(2 * sharePeriod) // readers may not join any more
	c.AsReader().SilentCall(key)
	c.AsReader().SilentCall(key, lockmw.WithWait(0))
	c.Wire.Restore()
	e.Busy(other.RW, key)
	release(e, held)
	e.Unlock(e.Call(e.Ctx, other.RW, key).Gets(env.AcceptWindow + env.PollInterval + e.Soon))
}

func writerUnheard(e *env.Env) {
	a, b, key := e.Client(), e.Client(), e.Key("item")
	defer e.Crowd(a.Reader(), key, 10, 20*time.Millisecond)()
	for range 3 {
		gets(e, key, 50)
		e.Server.Admin.ClientKillByFilter(e.Ctx, "TYPE", "pubsub")
		w, _ := e.Arrive(e.Ctx, b.RW, key) // on a busy machine no reader may hold the lock at this moment
		e.Unlock(w.Gets(sharePeriod + e.Soon))
	}
}
