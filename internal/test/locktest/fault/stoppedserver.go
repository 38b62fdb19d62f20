package fault

import (
	"maps"
	"slices"
	"time"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

var stoppedServer = []env.Scenario{
	env.Case("contexts end on time and the queue stays", holdsAndQueueOfStoppedServer, env.InRealTime|env.Alone|env.Costly),
}

func holdsAndQueueOfStoppedServer(e *env.Env) {
	lease := e.Ample(time.Second) // half of it may be longer than a waiter may stay unseen
	p, key := e.Process(), e.Key("item")
	ctx, held := e.Lock(e.Client(), key, lockmw.WithLease(lease))
	theirs := p.Lock(e.Key("item"), lease)
	theirs.Gets(env.Patience)
	waiters := waitEach(e, 1, key)
	e.Pass(env.BeatInterval / 3) // so that their beats do not coincide
	waiters = append(waiters, waitEach(e, 1, key)...)
	other := p.Wait(key)
	last := waitEach(e, 1, key)
	listening(e, key, 4)
	before := tickets(e, key)

	beats(e, key) // so the server reads the waiters behind it first when it continues
	e.Server.Pause(e.TB)
	defer e.Server.Resume(e.TB)
	stopped := time.Now()
	if e.Ends(ctx) {
		if late := time.Since(held.Deadline()); late < 0 || e.Pace.Since(held.Deadline()) > e.Soon {
			e.T.Errorf("the context ended %v after its deadline", late)
		}
		if took := e.Pace.Since(stopped); took > lease+e.Soon {
			e.T.Errorf("the context ended %v after the server stopped; the lease was %v", took, lease)
		}
	}
	end := theirs.Await(judge.Ended, env.Patience)
	if late := end.At - end.Deadline; !end.Lost || late < 0 || e.Pace.Between(judge.OwnTime(end.Deadline), judge.OwnTime(end.At)) > e.Soon {
		e.T.Errorf("the other process's context ended %v after its deadline", late)
	}
	e.Pass(time.Until(stopped.Add(lease + lease/2))) // the length of the stop
	e.Server.Resume(e.TB)

	byPoll := env.PollInterval + e.Soon // connections may have broken
	waiters[0].Gets(byPoll)
	if now := tickets(e, key); !slices.Equal(now, before[1:]) {
		e.T.Errorf("after the first grant the tickets are %q; they were %q", now, before)
	}
	e.Lost(ctx, held)
	env.RunInOrderWithin(byPoll, waiters)
	other.Gets(byPoll)
	other.Released()
	env.RunInOrderWithin(byPoll, last)
	e.Unlock(e.Lock(e.Client(), theirs.Key)) // the other process's lock is free
}

// beats waits for a beat of a process that waits for key.
func beats(e *env.Env, key string) {
	e.T.Helper()
	before := e.Server.Alive(key)
	e.Eventually(env.Patience, func() string {
		if maps.Equal(before, e.Server.Alive(key)) {
			return "no beat has arrived"
		}
		return ""
	})
}

// tickets returns the tickets in key's queue.
func tickets(e *env.Env, key string) (ids []string) {
	e.T.Helper()
	status, err := e.Server.Inspector().Get(e.Ctx, key)
	if err != nil {
		e.T.Error(err)
	}
	for _, w := range status.Waiters {
		ids = append(ids, w.Ticket)
	}
	return ids
}
