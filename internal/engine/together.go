package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/transport"
)

// A call that wants several locks tries to take them in one trip: one run of a script takes all of them, or none. Each
// lock has a request of its own meanwhile, so that its cohort is as with any other request, and callers that come join
// it. What the trip does not grant is given back before the call waits for anything, and it then takes one lock after
// the other (rule 23 of docs/protocol.md).
type trip struct {
	e        *Engine
	legs     []leg
	news     <-chan struct{} // of all waiters
	answered chan error      // why there was no answer, or nil
}

// A leg is the part of a trip that one lock has.
type leg struct {
	w *localq.Waiter
	r *request
}

// AcquireAll implements core.ManyLocks.
func (e *Engine) AcquireAll(ctx context.Context, rs []*core.Request) ([]core.Hold, error) {
	t := e.newTrip(ctx, rs)
	if t == nil {
		return nil, nil
	}
	first := t.legs[0].w
	e.sender.Inline(t.call(), first.IsPatient())
	err := t.await(first)
	holds := t.holds()
	if holds == nil || err != nil {
		t.giveBack()
		return nil, e.explain(rs[0].Key, err)
	}
	return holds, nil
}

// newTrip prepares a trip for the locks, each of which has to have nothing to do in this process. It returns nil if there
// can be none.
func (e *Engine) newTrip(ctx context.Context, rs []*core.Request) *trip {
	n := len(rs)
	first := rs[0]
	if n > core.MaxTogether || first.Mode == core.Read || first.Mode == core.Permit || !e.sender.Mixes() || e.closing.Load() ||
		e.checkRequest(first) != nil {
		return nil
	}
	waiters, news := localq.NewWaiters(ctx, rs, clock.Now())
	t := &trip{e: e, legs: make([]leg, 0, n), news: news, answered: make(chan error, 1)}
	for _, w := range waiters {
		if !t.add(w) {
			t.giveBack()
			return nil
		}
	}
	return t
}

// add sends a request for one lock along, if its cohort has nothing to do.
func (t *trip) add(w *localq.Waiter) bool {
	c := t.e.lockCohort(w.Req)
	defer c.unlock()
	if !c.isIdle() || len(t.legs) > 0 && c.slot != t.legs[0].r.c.slot {
		return false
	}
	c.waiters.Push(w)
	c.waits++
	request := c.newRequest(nil)
	if request == nil { // the context has ended
		c.removeWaiter(w)
		return false
	}
	t.legs = append(t.legs, leg{w, request})
	return true
}

// isIdle reports whether nobody of this process has the lock, wants it or is about to release it, as far as the cohort
// and its entry know.
func (c *cohort) isIdle() bool {
	return c.waits == 0 && c.known == 0 && c.request == nil && c.lease == nil && c.releasing == nil && !c.raising
}

// call prepares a run of acquire_all.lua.
func (t *trip) call() *transport.Call {
	first := t.legs[0]
	want := first.w.Req
	a := script.AcquireAll{
		Locks: make([]script.IDOf, len(t.legs)), Lease: want.Lease, Mode: want.Mode, Trace: want.Trace,
		About: aboutOf(want), Inbox: first.r.c.slot.inbox.Address,
	}
	for i, l := range t.legs {
		a.Locks[i] = script.IDOf{Keys: &l.r.c.keys, ID: l.r.id}
	}
	k := a.Call(first.w.Ctx, t.e.scripts, t.onAnswer)
	k.Late = t.onLateAnswer
	return k
}

// onLateAnswer deals with an answer to a run that has had one, as each request does.
func (t *trip) onLateAnswer(reply *transport.Reply) {
	for _, l := range t.legs {
		l.r.onLateAnswer(reply)
	}
}

// onAnswer deals with the answer to acquire_all.lua.
func (t *trip) onAnswer(reply *transport.Reply) {
	grants, err := script.AcquireAllAnswer(reply, len(t.legs))
	if err == nil {
		err = reply.Few
	}
	for i := range t.legs {
		l := &t.legs[i]
		if err == nil && grants != nil {
			l.onGranted(grants[i], reply)
		} else {
			l.onRefused(err)
		}
	}
	t.answered <- err
}

func (l *leg) onGranted(g script.Grant, reply *transport.Reply) {
	c := l.r.c
	c.shard.mu.Lock()
	defer c.unlock()
	if l.r.over {
		l.r.cancelAgain(nil)
		return
	}
	c.onGranted(l.r, g, reply.Sent, l.r.leaseEnd(reply.Sent), true)
}

// onRefused ends the request, and sends one for those who have joined the cohort since.
func (l *leg) onRefused(err error) {
	c := l.r.c
	c.shard.mu.Lock()
	defer c.unlock()
	switch {
	case l.r.over:
		l.r.cancelAgain(err)
		return
	case err != nil:
		l.r.failed()
	default:
		l.r.refused()
	}
	c.removeWaiter(l.w)
	l.w.Finish(nil, errRefused)
	c.sendRequest(nil)
}

// errRefused is for a lock that a trip has not taken. No caller sees it.
var errRefused = errors.New("lockmw: not taken in one trip")

// await waits for the answer as long as the caller has time. An error ends the call; what the answer was is another
// question.
func (t *trip) await(first *localq.Waiter) error {
	select {
	case err := <-t.answered: // most are there at once
		return t.failure(first, err)
	default:
	}
	limit, stop := first.Limit()
	defer stop()
	for {
		select {
		case err := <-t.answered:
			return t.failure(first, err)
		case <-t.news:
			if t.isClosed() {
				return nil
			}
		case <-limit:
			return t.waitError(nil)
		case <-first.Ctx.Done():
			return t.waitError(first.Ctx.Err())
		}
	}
}

// isClosed reports whether Close or Shutdown has ended the wait.
func (t *trip) isClosed() bool {
	c := t.legs[0].r.c
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	_, err := t.legs[0].w.Outcome()
	return err != nil && !errors.Is(err, errRefused)
}

// waitError is what the first of several calls for one lock each would return.
func (t *trip) waitError(ended error) error {
	c := t.legs[0].r.c
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	return localq.WithEnd(c.InVain(), ended)
}

// failure returns the error of a call whose context has ended, or that does not wait for a server which answers with err.
func (t *trip) failure(first *localq.Waiter, err error) error {
	if ended := first.Ctx.Err(); err != nil && ended != nil {
		return t.waitError(ended)
	}
	if err == nil || !first.IsHurried() || !transport.IsPassing(err) || transport.IsMoving(err) {
		return nil
	}
	return &core.AcquireError{Err: transport.Failure(err)}
}

// holds returns what was granted; nil if a lock is missing, because its grant was late or its token old, for example.
func (t *trip) holds() []core.Hold {
	holds := make([]core.Hold, len(t.legs))
	for i, l := range t.legs {
		c := l.r.c
		c.shard.mu.Lock()
		h, _ := l.w.Outcome()
		c.shard.mu.Unlock()
		if h == nil {
			return nil
		}
		holds[i] = h
	}
	return holds
}

// giveBack ends what is left of the trip, and releases what it has got.
func (t *trip) giveBack() {
	var had []core.Hold
	for _, l := range t.legs {
		if h := l.giveUp(); h != nil {
			had = append(had, h)
		}
	}
	t.e.ReleaseAll(had, localq.GiveUpPatience) // a release that fails is tried again in the background
}

// giveUp ends the wait for one lock. If it was granted, the hold is returned.
func (l *leg) giveUp() core.Hold {
	c := l.r.c
	c.shard.mu.Lock()
	defer c.unlock()
	switch h, err := l.w.Outcome(); {
	case h != nil:
		h.(*hold).Abandoned = true
		return h
	case err != nil:
		return nil
	}
	if !l.r.over {
		l.r.failed()
	}
	c.removeWaiter(l.w)
	c.cancelIfUnwanted()
	c.sendRequest(nil)
	return nil
}

// ReleaseAll implements core.ManyLocks: plain releases of locks in one slot go out as one run (rule 23 of
// docs/protocol.md), and all others at the same time.
func (e *Engine) ReleaseAll(holds []core.Hold, patience time.Duration) []core.Released {
	results := make([]core.Released, len(holds))
	releases := make([]*release, len(holds))
	var calls []*transport.Call
	var plain map[*slot][]*release
	for i := range holds {
		var r *release
		results[i].Waiters, r, results[i].Err = holds[i].(*hold).beginRelease(patience)
		releases[i] = r
		switch {
		case r == nil:
		case e.sender.Mixes() && r.isPlain():
			if plain == nil {
				plain = make(map[*slot][]*release)
			}
			plain[r.l.c.slot] = append(plain[r.l.c.slot], r)
		default:
			calls = append(calls, r.call(r.begun))
		}
	}
	for _, rs := range plain {
		for part := range slices.Chunk(rs, core.MaxTogether) {
			calls = append(calls, e.callForAll(part))
		}
	}
	for i, k := range calls {
		if i < len(calls)-1 {
			e.sender.Start(k)
		} else {
			e.sendRelease(k, patience) // in this goroutine
		}
	}
	for i, r := range releases {
		if r != nil {
			results[i].Err = r.await(patience)
		}
	}
	return results
}

// isPlain reports whether release_batch.lua can do it.
func (r *release) isPlain() bool {
	return r.place == "" && r.lingers.IsZero() && len(r.served) == 0 && !r.l.isRead() && !r.l.c.isPermit() && !r.l.id.Copied()
}

// callForAll prepares one run for plain releases of locks in one slot.
func (e *Engine) callForAll(rs []*release) *transport.Call {
	if len(rs) == 1 {
		return rs[0].call(rs[0].begun)
	}
	all := script.ReleaseAll{Locks: make([]script.IDOf, len(rs))}
	for i, r := range rs {
		all.Locks[i] = script.IDOf{Keys: &r.l.c.keys, ID: r.l.id}
	}
	k := all.Call(e.sender.Context(), e.scripts, func(reply *transport.Reply) {
		for i, answer := range all.Answers(reply) {
			if answer != nil {
				rs[i].onAnswer(answer)
			} else {
				rs[i].send()
			}
		}
	})
	k.Limit = max(rs[0].until.Sub(rs[0].begun), time.Millisecond)
	return k
}
