package locktest

import (
	"time"

	"github.com/lockmw/go/lockmw"
)

var killedReaders = []scenario{
	{"a killed reader delays a writer by its own lease", killedReader, twoSided | realTime | shares},
	{"a killed reader's share is freed and the others stay", killedReaderBesideOthers, twoSided | realTime | shares},
	{"a stopped reader's share is freed, and it wakes without it", stoppedReader, twoSided | realTime | shares | sample},
	{"a stopped reader that was let in meanwhile delays a writer by its accept window", stoppedReaderGranted, twoSided | realTime | shares},
	{"a killed writer's lock is granted to all readers that wait", killedWriter, twoSided | realTime | shares},
}

func killedReader(e *env) {
	const lease = 900 * time.Millisecond
	p, key := e.process(), e.key("item")
	held := p.lockAs(readMode, key, lease)
	held.gets(patience)
	w := e.wait(e.client().rw, key)
	held.says(renewed, patience)
	killed := p.kill()
	e.runsBy(w, killed.Add(lease+pollInterval))
	e.release(w.held)
}

func killedReaderBesideOthers(e *env) {
	const lease = 600 * time.Millisecond
	p, c, other, key := e.process(), e.client(), e.client(), e.key("item")
	holds := []*Held{e.read(c, key, lockmw.WithLease(lease)), e.read(other, key, lockmw.WithLease(3*lease))}
	theirs := p.lockAs(readMode, key, lease)
	theirs.gets(patience)
	theirs.says(renewed, patience)
	e.sharesOf(key, 3, patience)
	w := e.wait(other.rw, key)
	killed := p.kill()
	e.sharesOf(key, 2, time.Until(killed.Add(lease+pollInterval))+e.soon)
	e.pass(lease)
	e.alive(holds...)
	w.isWaiting()
	e.release(holds...)
	e.unlock(w.gets(e.soon))
}

func stoppedReader(e *env) {
	const lease = 600 * time.Millisecond
	var guarded ledger
	p, c, key := e.process(), e.client(), e.key("item")
	theirs := p.lockAs(readMode, key, lease)
	guarded.write(theirs.gets(patience).Token)
	held := e.read(c, key, lockmw.WithLease(lease))
	w := e.wait(c.rw, key)
	theirs.watch()
	p.child.Pause(e.tb)
	stopped := time.Now()
	e.sharesOf(key, 1, lease+pollInterval+e.soon)
	e.pass(time.Until(stopped.Add(lease)))
	e.release(held)
	w.gets(e.soon)
	guarded.write(w.held.Token())
	p.child.Resume(e.tb)
	seen := theirs.says(watched, patience) // at the first look: else it would say late
	if guarded.write(seen.Token) {
		e.t.Error("an entry of the former reader is taken")
	}
	if r := theirs.unlock(); r.Type != "lock_lost" {
		e.t.Errorf("Unlock of a lost hold in the other process: %q", r.Err)
	}
	p.child.End()
	e.busy(c.reader(), key)
	e.release(w.held)
}

func stoppedReaderGranted(e *env) {
	p, clients, key := e.process(), e.clients(2), e.key("item")
	writer := e.write(clients[0], key)
	theirs := p.lockAs(readMode, key, 0)
	theirs.waits()
	reader, w := e.wait(clients[0].reader(), key), e.wait(clients[1].rw, key)
	p.child.Pause(e.tb)
	e.release(writer) // also to the one that cannot know
	_, held := reader.gets(e.soon)
	e.release(held)
	e.runsBy(w, time.Now().Add(acceptWindow+pollInterval))
	p.child.Resume(e.tb) // it reads of the grant now
	theirs.hasNot(granted)
	e.release(w.held)
	theirs.gets(pollInterval + e.soon)
	theirs.released()
}

func killedWriter(e *env) {
	const lease = 900 * time.Millisecond
	p, key := e.process(), e.key("item")
	held := p.lockAs("write", key, lease)
	held.gets(patience)
	clients := e.clients(2)
	readers := []*waiter{e.wait(clients[0].reader(), key), e.wait(clients[1].reader(), key)}
	w := e.wait(clients[0].rw, key)
	killed := p.kill()
	e.runsBy(readers[0], killed.Add(lease+pollInterval))
	holds := e.together(readers)
	w.isWaiting()
	e.release(holds...)
	e.unlock(w.gets(e.soon))
}
