package fault

import (
	"time"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/test/locktest/env"
)

var stoppedProcesses = []env.Scenario{
	env.Case("a resumed holder does not hold the lock any more", stoppedHolder, env.InRealTime|env.Shares|env.Sample),
	env.Case("a waiter that missed its grant queues again in its old place", stoppedWaiter, env.InRealTime|env.OneNode|env.Shares),
}

func stoppedHolder(e *env.Env) {
	lease := e.Ample(600 * time.Millisecond)
	var guarded env.Ledger
	p, key := e.Process(), e.Key("item")
	theirs := p.Lock(key, lease)
	token := theirs.Gets(env.Patience).Token
	if !guarded.Write(token) {
		e.T.Error("the holder's entry was refused")
	}
	w := e.Wait(e.Client(), key)
	theirs.Watch()
	p.Child.Pause(e.TB)
	stopped := time.Now()
	w.RunsBy(stopped.Add(lease + env.PollInterval))
	if !guarded.Write(w.Held.Token()) {
		e.T.Error("the next holder's entry was refused")
	}
	p.Child.Resume(e.TB)
	seen := theirs.Await(env.Watched, env.Patience) // at the first check; otherwise it reports Late
	if seen.Deadline > judge.MachineTime(stopped.Add(lease)) {
		e.T.Errorf("the hold's deadline moved while its process was stopped")
	}
	if guarded.Write(seen.Token) {
		e.T.Error("an entry of the former holder was accepted")
	}
	if end := theirs.Await(judge.Ended, env.Patience); !end.Lost {
		e.T.Error("the loss was not reported")
	}
	if r := theirs.Unlock(); r.Type != "lock_lost" {
		e.T.Errorf("Unlock of a lost hold in the other process: %q", r.Err)
	}
	p.Child.End() // all its cancels have reached the server
	e.Busy(e.Client(), key)
	e.Unlock(w.Ctx, w.Held)
}

func stoppedWaiter(e *env.Env) {
	p, key := e.Process(), e.Key("item")
	ctx, held := e.Lock(e.Client(), key)
	before := e.Wait(e.Client(), key)
	theirs := p.Wait(key)
	next := e.Wait(e.Client(), key)
	e.Unlock(ctx, held)
	ctx, held = before.Gets(e.Soon)
	listening(e, key, 2)
	p.Child.Pause(e.TB)
	e.Unlock(ctx, held) // grants to the stopped process
	next.RunsBy(time.Now().Add(env.AcceptWindow + env.PollInterval))
	after := e.Wait(e.Client(), key)
	p.Child.Resume(e.TB) // it receives the grant now
	e.Server.TicketsQueued(key, 2)
	theirs.NotReported(judge.Granted)
	e.Unlock(next.Ctx, next.Held)
	theirs.Gets(e.Soon)
	after.IsWaiting()
	theirs.Released()
	e.Unlock(after.Gets(e.Soon))
}
