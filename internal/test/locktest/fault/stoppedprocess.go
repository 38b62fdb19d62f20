package fault

import (
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/locktest/judge"
)

var stoppedProcesses = []env.Scenario{
	env.Case("that held the lock wakes without it", stoppedHolder, env.InRealTime|env.Shares|env.Sample),
	env.Case("that was granted the lock meanwhile queues again in its old place", stoppedWaiter, env.InRealTime|env.OneNode|env.Shares),
}

func stoppedHolder(e *env.Env) {
	lease := e.Ample(600 * time.Millisecond)
	var guarded env.Ledger
	p, key := e.Process(), e.Key("item")
	theirs := p.Lock(key, lease)
	token := theirs.Gets(env.Patience).Token
	if !guarded.Write(token) {
		e.T.Error("the holder's entry is refused")
	}
	w := e.Wait(e.Client(), key)
	theirs.Watch()
	p.Child.Pause(e.TB)
	stopped := time.Now()
	w.RunsBy(stopped.Add(lease + env.PollInterval))
	if !guarded.Write(w.Held.Token()) {
		e.T.Error("the next holder's entry is refused")
	}
	p.Child.Resume(e.TB)
	seen := theirs.Says(judge.Watched, env.Patience) // at the first look: else it would say late
	if seen.Deadline > judge.MachineTime(stopped.Add(lease)) {
		e.T.Errorf("the hold's deadline moved while its process stood still")
	}
	if guarded.Write(seen.Token) {
		e.T.Error("an entry of the former holder is taken")
	}
	if end := theirs.Says(judge.Ended, env.Patience); !end.Lost {
		e.T.Error("the loss of the lock is not told")
	}
	if r := theirs.Unlock(); r.Type != "lock_lost" {
		e.T.Errorf("Unlock of a lost hold in the other process: %q", r.Err)
	}
	p.Child.End() // it has told the server what it wants to be forgotten
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
	e.Unlock(ctx, held) // to the one that cannot know
	next.RunsBy(time.Now().Add(env.AcceptWindow + env.PollInterval))
	after := e.Wait(e.Client(), key)
	p.Child.Resume(e.TB) // it reads of the grant now
	e.Server.TicketsQueued(key, 2)
	theirs.HasNot(judge.Granted)
	e.Unlock(next.Ctx, next.Held)
	theirs.Gets(e.Soon)
	after.IsWaiting()
	theirs.Released()
	e.Unlock(after.Gets(e.Soon))
}
