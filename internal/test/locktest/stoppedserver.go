package locktest

import (
	"slices"
	"time"

	"github.com/lockmw/go/lockmw"
)

var stoppedServer = []scenario{
	{"ends contexts on time and keeps the queue", holdsAndQueueOfStoppedServer, realTime | alone | sample | costly},
}

func holdsAndQueueOfStoppedServer(e *env) {
	// One and a half of it are longer than a waiter may stay unseen.
	const lease = 4 * pollInterval
	p, key := e.process(), e.key("item")
	ctx, held := e.lock(e.client(), key, lockmw.WithLease(lease))
	theirs := p.lock(e.key("item"), lease)
	theirs.gets(patience)
	waiters := e.waitEach(1, key)
	e.pass(pollInterval / 3) // so that they do not poll at the same time
	waiters = append(waiters, e.waitEach(1, key)...)
	other := p.wait(key)
	last := e.waitEach(1, key)
	e.listening(key, 4)
	tickets := e.tickets(key)

	e.polls(key, tickets[0]) // those behind it are heard first, therefore, when the server goes on
	e.server.Pause(e.tb)
	defer e.server.Resume(e.tb)
	stopped := time.Now()
	if e.ends(ctx) {
		late := time.Since(held.Deadline())
		if late < 0 || late > e.soon {
			e.t.Errorf("the context ended %v after its deadline", late)
		}
		if took := e.pace.since(stopped); took > lease+e.soon {
			e.t.Errorf("the context ended %v after the server had stopped, the lease was %v", took, lease)
		}
	}
	end := theirs.says(ended, patience)
	if late := end.At - end.Deadline; !end.Lost || late < 0 || late > e.soon {
		e.t.Errorf("the other process' context ended %v after its deadline", late)
	}
	e.pass(time.Until(stopped.Add(lease + lease/2))) // the stop lasts so long
	e.server.Resume(e.tb)

	waiters[0].gets(pollInterval + e.soon)
	if now := e.tickets(key); !slices.Equal(now, tickets[1:]) {
		e.t.Errorf("after the first one's grant the tickets are %q; they were %q", now, tickets)
	}
	e.lost(ctx, held)
	e.runInOrder(waiters)
	other.gets(e.soon)
	other.released()
	e.runInOrder(last)
	e.unlock(e.lock(e.client(), theirs.key)) // the other process has no more of it
}

// polls waits until the process of a ticket does.
func (e *env) polls(key, ticket string) {
	e.t.Helper()
	seen := func() string { return e.admin.HGet(e.ctx, e.redisKey(key)+":tickets", "@"+ticket).Val() }
	before := seen()
	e.eventually(patience, func() string {
		if seen() == before {
			return "no poll has arrived"
		}
		return ""
	})
}

// tickets returns who is queued for a key.
func (e *env) tickets(key string) (ids []string) {
	e.t.Helper()
	inspector, err := lockmw.NewInspector(e.admin, lockmw.WithPrefix(e.prefix))
	if err != nil {
		e.t.Fatal(err)
	}
	status, err := inspector.Get(e.ctx, key)
	if err != nil {
		e.t.Error(err)
	}
	for _, w := range status.Waiters {
		ids = append(ids, w.Ticket)
	}
	return ids
}
