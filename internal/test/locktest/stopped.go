package locktest

import (
	"sync"
	"time"
)

var stoppedProcesses = []scenario{
	{"that held the lock wakes without it", stoppedHolder, realTime | shares | sample},
	{"that was granted the lock meanwhile queues again in its old place", stoppedWaiter, realTime | shares},
}

// A ledger is what a lock guards: it takes no entry with an older token than the last.
type ledger struct {
	mu   sync.Mutex
	last int64
}

func (l *ledger) write(token int64) (accepted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if token < l.last {
		return false
	}
	l.last = token
	return true
}

func stoppedHolder(e *env) {
	const lease = 600 * time.Millisecond
	var guarded ledger
	p, key := e.process(), e.key("item")
	theirs := p.lock(key, lease)
	token := theirs.gets(patience).Token
	if !guarded.write(token) {
		e.t.Error("the holder's entry is refused")
	}
	w := e.wait(e.client(), key)
	theirs.watch()
	p.child.Pause(e.tb)
	stopped := time.Now()
	e.runsBy(w, stopped.Add(lease+pollInterval))
	if !guarded.write(w.held.Token()) {
		e.t.Error("the next holder's entry is refused")
	}
	p.child.Resume(e.tb)
	seen := theirs.says(watched, patience) // at the first look: else it would say late
	if seen.Deadline > machineTime(stopped.Add(lease)) {
		e.t.Errorf("the hold's deadline moved while its process stood still")
	}
	if guarded.write(seen.Token) {
		e.t.Error("an entry of the former holder is taken")
	}
	if end := theirs.says(ended, patience); !end.Lost {
		e.t.Error("the loss of the lock is not told")
	}
	if r := theirs.unlock(); r.Type != "lock_lost" {
		e.t.Errorf("Unlock of a lost hold in the other process: %q", r.Err)
	}
	p.child.End() // it has told the server what it wants to be forgotten
	e.busy(e.client(), key)
	e.unlock(w.ctx, w.held)
}

// watch has the process look at the hold's context all the time, and returns when it does.
func (c *remote) watch() {
	c.p.e.t.Helper()
	c.p.child.Order(order{Do: "watch", Call: c.n})
	c.says(watching, patience)
}

func stoppedWaiter(e *env) {
	p, key := e.process(), e.key("item")
	ctx, held := e.lock(e.client(), key)
	before := e.wait(e.client(), key)
	theirs := p.wait(key)
	next := e.wait(e.client(), key)
	e.unlock(ctx, held)
	ctx, held = before.gets(e.soon)
	e.listening(key, 2)
	p.child.Pause(e.tb)
	e.unlock(ctx, held) // to the one that cannot know
	e.runsBy(next, time.Now().Add(acceptWindow+pollInterval))
	after := e.wait(e.client(), key)
	p.child.Resume(e.tb) // it reads of the grant now
	e.ticketsQueued(key, 2)
	theirs.hasNot(granted)
	e.unlock(next.ctx, next.held)
	theirs.gets(e.soon)
	after.isWaiting()
	theirs.released()
	e.unlock(after.gets(e.soon))
}
