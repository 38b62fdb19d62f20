package rw

import (
	"time"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/test/locktest/env"
)

var killedReaders = []env.Scenario{
	env.Case("a stopped reader that was granted the lock delays a writer by its accept window", stoppedReaderGranted, env.TwoSided|env.InRealTime|env.Shares),
}

func stoppedReaderGranted(e *env.Env) {
	p, clients, key := e.Process(), e.Clients(2), e.Key("item")
	writer := write(e, clients[0], key)
	theirs := p.LockAs(env.ReadMode, key, 0)
	theirs.Waits()
	reader, w := e.Wait(clients[0].Reader(), key), e.Wait(clients[1].RW, key)
	p.Child.Pause(e.TB)
	release(e, writer) // also grants to the stopped process
	_, held := reader.Gets(e.Soon)
	release(e, held)
	w.RunsBy(time.Now().Add(env.AcceptWindow + env.PollInterval))
	p.Child.Resume(e.TB) // it receives the grant now
	theirs.NotReported(judge.Granted)
	release(e, w.Held)
	theirs.Gets(env.PollInterval + e.Soon)
	theirs.Released()
}
