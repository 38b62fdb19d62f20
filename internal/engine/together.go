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

// A call for several locks first tries a multi-acquire: one execution of a script takes all of them, or none. Meanwhile each lock
// has a request of its own, so that its cohort works as with any other request, and other callers join it. If the multi-acquire
// fails, everything is given back before the call waits for any lock, and it then takes one lock after the other (rule 23 of
// docs/protocol.md).
type multiAcquire struct {
	e        *Engine
	parts    []part
	news     <-chan struct{} // of all waiters
	answered chan error      // the error of the call, or nil
}

// A part is one lock of a multi-acquire.
type part struct {
	w *localq.Waiter
	r *request
}

// AcquireAll implements core.ManyLocks.
func (e *Engine) AcquireAll(ctx context.Context, rs []*core.Request) ([]core.Hold, error) {
	m := e.newMultiAcquire(ctx, rs)
	if m == nil {
		return nil, nil
	}
	first := m.parts[0].w
	e.sender.Inline(m.call(), first.IsPatient())
	err := m.await(first)
	holds := m.holds()
	if holds == nil || err != nil {
		m.giveBack()
		return nil, e.explain(rs[0].Key, err)
	}
	return holds, nil
}

// newMultiAcquire prepares a multi-acquire. Each lock must have nothing to do in this process. It returns nil if no multi-acquire
// is possible.
func (e *Engine) newMultiAcquire(ctx context.Context, rs []*core.Request) *multiAcquire {
	n := len(rs)
	first := rs[0]
	if n > core.MaxTogether || first.Mode == core.Read || first.Mode == core.Permit || !e.sender.CanMultiKey() || e.checkRequest(first) != nil {
		return nil
	}
	waiters, news := localq.NewWaiters(ctx, rs, clock.Now())
	m := &multiAcquire{e: e, parts: make([]part, 0, n), news: news, answered: make(chan error, 1)}
	for _, w := range waiters {
		if !m.add(w) {
			m.giveBack()
			return nil
		}
	}
	return m
}

// add adds a request for one lock, if its cohort is idle. It adds none once the engine is closing. Shutdown and Close end the
// requests that were added before.
func (m *multiAcquire) add(w *localq.Waiter) bool {
	c := m.e.lockCohort(w.Req)
	defer c.unlock()
	if m.e.closing.Load() || !c.isIdle() || len(m.parts) > 0 && c.slot != m.parts[0].r.c.slot {
		return false
	}
	c.waiters.Push(w)
	c.waits++
	request := c.newRequest(nil)
	if request == nil { // the context has ended
		c.removeWaiter(w)
		return false
	}
	m.parts = append(m.parts, part{w, request})
	return true
}

// isIdle reports whether no caller of this process holds the lock, waits for it or is about to release it, as far as the cohort
// and its entry show.
func (c *cohort) isIdle() bool {
	return c.waits == 0 && c.known == 0 && c.request == nil && c.lease == nil && c.releasing == nil && !c.raising
}

// call prepares an execution of acquire_all.lua.
func (m *multiAcquire) call() *transport.Call {
	first := m.parts[0]
	want := first.w.Req
	a := script.AcquireAll{
		Locks: make([]script.LockID, len(m.parts)), Lease: want.Lease, Mode: want.Mode, Trace: want.Trace,
		Info: holderInfoOf(want), Inbox: first.r.c.slot.inbox.Address,
	}
	for i, p := range m.parts {
		a.Locks[i] = script.LockID{Keys: &p.r.c.keys, ID: p.r.id}
	}
	k := a.Call(first.w.Ctx, m.e.scripts, m.onAnswer)
	k.Late = m.onLateAnswer
	return k
}

// onLateAnswer handles a second answer to the call, as each request does.
func (m *multiAcquire) onLateAnswer(reply *transport.Reply) {
	for _, p := range m.parts {
		p.r.onLateAnswer(reply)
	}
}

// onAnswer handles the answer to acquire_all.lua.
func (m *multiAcquire) onAnswer(reply *transport.Reply) {
	grants, err := script.AcquireAllAnswer(reply, len(m.parts))
	if err == nil {
		err = reply.ReplicaErr
	}
	for i := range m.parts {
		p := &m.parts[i]
		if err == nil && grants != nil {
			p.onGranted(grants[i], reply)
		} else {
			p.onRefused(err)
		}
	}
	m.answered <- err
}

func (p *part) onGranted(g script.Grant, reply *transport.Reply) {
	c := p.r.c
	c.shard.mu.Lock()
	defer c.unlock()
	if p.r.over {
		p.r.cancelAgain(nil)
		return
	}
	c.onGranted(p.r, g, reply.Sent, p.r.leaseEnd(reply.Sent), true)
}

// onRefused ends the request, and sends one for callers that have joined the cohort since.
func (p *part) onRefused(err error) {
	c := p.r.c
	c.shard.mu.Lock()
	defer c.unlock()
	switch {
	case p.r.over:
		p.r.cancelAgain(err)
		return
	case err != nil:
		p.r.failed()
	default:
		p.r.refused()
	}
	c.finish(p.w, nil, errRefused)
	c.sendRequest(nil)
}

// errRefused ends the wait of a part whose multi-acquire failed. It never reaches a caller.
var errRefused = errors.New("lockmw: not taken together")

// await waits for the answer as long as the caller has time. It returns an error if the call is to end; nil does not mean that
// the locks were granted.
func (m *multiAcquire) await(first *localq.Waiter) error {
	select {
	case err := <-m.answered: // most arrive immediately
		return m.failure(first, err)
	default:
	}
	limit, stop := first.Limit()
	defer stop()
	for {
		select {
		case err := <-m.answered:
			return m.failure(first, err)
		case <-m.news:
			if m.isClosed() {
				return nil
			}
		case <-limit:
			return m.waitError(nil)
		case <-first.Ctx.Done():
			return m.waitError(first.Ctx.Err())
		}
	}
}

// isClosed reports whether Close or Shutdown has ended the wait.
func (m *multiAcquire) isClosed() bool {
	c := m.parts[0].r.c
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	_, err := m.parts[0].w.Outcome()
	return err != nil && !errors.Is(err, errRefused)
}

// waitError returns the error that a call for the first lock alone would return.
func (m *multiAcquire) waitError(ended error) error {
	c := m.parts[0].r.c
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	return localq.WithContextErr(c.WaitFailed(m.parts[0].w), ended)
}

// failure returns an error if the context has ended, or if the call fails fast and the server answers with err.
func (m *multiAcquire) failure(first *localq.Waiter, err error) error {
	if ended := first.Ctx.Err(); err != nil && ended != nil {
		return m.waitError(ended)
	}
	if err == nil || !first.FailsFast() || !transport.IsTemporary(err) || transport.IsMoving(err) {
		return nil
	}
	return &core.AcquireError{Err: transport.Failure(err)}
}

// holds returns the holds, or nil if one is missing, for example because its grant was late or its token stale.
func (m *multiAcquire) holds() []core.Hold {
	holds := make([]core.Hold, len(m.parts))
	for i, p := range m.parts {
		c := p.r.c
		c.shard.mu.Lock()
		h, _ := p.w.Outcome()
		c.shard.mu.Unlock()
		if h == nil {
			return nil
		}
		holds[i] = h
	}
	return holds
}

// giveBack ends the rest of the multi-acquire, and releases the holds that it has.
func (m *multiAcquire) giveBack() {
	var had []core.Hold
	for _, p := range m.parts {
		if h := p.cancel(); h != nil {
			had = append(had, h)
		}
	}
	m.e.ReleaseAll(had, localq.GiveUpPatience) // a failed release is retried in the background
}

// cancel ends the wait for one lock. If the lock was granted, it returns the hold.
func (p *part) cancel() core.Hold {
	c := p.r.c
	c.shard.mu.Lock()
	defer c.unlock()
	switch h, err := p.w.Outcome(); {
	case h != nil:
		h.(*hold).Abandoned = true
		return h
	case err != nil:
		return nil
	}
	if !p.r.over {
		p.r.failed()
	}
	c.Leave(p.w)
	return nil
}

// ReleaseAll implements core.ManyLocks. Plain releases of locks in one slot share one execution (rule 23 of docs/protocol.md).
// All others are sent at the same time.
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
		case e.sender.CanMultiKey() && r.isPlain():
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

// isPlain reports whether release_batch.lua can do the release.
func (r *release) isPlain() bool {
	return r.place == "" && r.lingers.IsZero() && len(r.served) == 0 && !r.l.isRead() && !r.l.c.isPermit() && !r.l.id.Copied()
}

// callForAll prepares one execution for plain releases of locks in one slot.
func (e *Engine) callForAll(rs []*release) *transport.Call {
	if len(rs) == 1 {
		return rs[0].call(rs[0].begun)
	}
	all := script.ReleaseAll{Locks: make([]script.LockID, len(rs))}
	for i, r := range rs {
		all.Locks[i] = script.LockID{Keys: &r.l.c.keys, ID: r.l.id}
	}
	k := all.Call(e.sender.Context(), e.scripts, func(reply *transport.Reply) {
		for i, answer := range all.Answers(reply) {
			if answer != nil {
				rs[i].onAnswer(answer)
			} else {
				rs[i].Due()
			}
		}
	})
	k.Limit = max(rs[0].until.Sub(rs[0].begun), time.Millisecond)
	return k
}
