package rw

import (
	"time"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

var killedReaders = []env.Scenario{
	env.Case("a killed reader delays a writer by its own lease", killedReader, env.TwoSided|env.InRealTime|env.Shares),
	env.Case("a stopped reader's hold expires, and the reader notices when it resumes", stoppedReader, env.TwoSided|env.InRealTime|env.Shares|env.Sample),
	env.Case("a stopped reader that was granted the lock delays a writer by its accept window", stoppedReaderGranted, env.TwoSided|env.InRealTime|env.Shares),
	env.Case("a killed writer's lock is granted to all waiting readers", killedWriter, env.TwoSided|env.InRealTime|env.Shares),
}

func killedReader(e *env.Env) {
	lease := e.Ample(600 * time.Millisecond)
	p, key := e.Process(), e.Key("item")
	held := p.LockAs(env.ReadMode, key, lease)
	held.Gets(env.Patience)
	w := e.Wait(e.Client().RW, key)
	held.Await(judge.Renewed, env.Patience)
	killed := p.Kill()
	w.RunsBy(killed.Add(lease + env.PollInterval))
	release(e, w.Held)
}

func stoppedReader(e *env.Env) {
	lease := e.Ample(600 * time.Millisecond)
	var guarded env.Ledger
	p, c, key := e.Process(), e.Client(), e.Key("item")
	theirs := p.LockAs(env.ReadMode, key, lease)
	guarded.Write(theirs.Gets(env.Patience).Token)
	held := read(e, c, key, lockmw.WithLease(lease))
	w := e.Wait(c.RW, key)
	theirs.Watch()
	p.Child.Pause(e.TB)
	stopped := time.Now()
	sharesOf(e, key, 1, lease+env.PollInterval+e.Soon)
	e.Pass(time.Until(stopped.Add(lease)))
	release(e, held)
	w.Gets(e.Soon)
	guarded.Write(w.Held.Token())
	p.Child.Resume(e.TB)
	seen := theirs.Await(judge.Watched, env.Patience) // at the first check; otherwise it reports Late
	if guarded.Write(seen.Token) {
		e.T.Error("an entry of the former reader was accepted")
	}
	if r := theirs.Unlock(); r.Type != "lock_lost" {
		e.T.Errorf("Unlock of a lost hold in the other process: %q", r.Err)
	}
	p.Child.End()
	e.Busy(c.Reader(), key)
	release(e, w.Held)
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

func killedWriter(e *env.Env) {
	lease := e.Ample(600 * time.Millisecond)
	p, key := e.Process(), e.Key("item")
	held := p.LockAs("write", key, lease)
	held.Gets(env.Patience)
	clients := e.Clients(2)
	readers := []*env.Waiter{e.Wait(clients[0].Reader(), key), e.Wait(clients[1].Reader(), key)}
	w := e.Wait(clients[0].RW, key)
	killed := p.Kill()
	readers[0].RunsBy(killed.Add(lease + env.PollInterval))
	holds := together(e, readers)
	w.IsWaiting()
	release(e, holds...)
	e.Unlock(w.Gets(e.Soon))
}
