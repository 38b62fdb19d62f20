package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/loglimit"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/timers"
	"github.com/lockmw/go/internal/transport"
)

// Release implements core.Hold.
func (h *hold) Release(patience time.Duration) (waiters int, err error) {
	waiters, r, err := h.beginRelease(patience)
	switch {
	case r != nil:
		err = r.run(patience)
	case h.end != nil && h.end.Outcome != recordVoid: // the cancel of the lease makes it void
		h.endAlone(patience)
	}
	return waiters, err
}

// beginRelease ends the hold in this process. It returns the release that the server still has to run, or nil if there is none or
// it is already in flight.
func (h *hold) beginRelease(patience time.Duration) (waiters int, r *release, err error) {
	l, c := h.lease, h.lease.c
	c.shard.mu.Lock()
	defer c.unlock()
	now := clock.Now() // read once: passes within a process are so fast that each reading counts
	waiters = c.waiting()
	err = h.Ended()
	if err == nil && now >= h.Deadline() {
		err = h.expiryLoss(now)
		l.endHold(h, err)
		if l.isUnused() {
			l.lose(err)
		}
	}
	if err != nil {
		return waiters, nil, err
	}
	if c.isShared() {
		return waiters, h.beginReleaseOfShare(now, patience), nil
	}
	linger := h.Linger()
	if linger <= 0 && (c.passOn(l, now) || l.passInBatch(h, now)) {
		h.Over = true
		c.e.active.End()
		return waiters, nil, nil
	}
	if linger <= 0 && c.waiters.Len > 0 {
		l.detach(nil)
		c.shard.released.note(c.lockKey(), l.id.Number(), now)
		c.sendRequest(&script.Predecessor{ID: l.id, Lease: l.duration})
		return waiters, nil, nil
	}
	l.detachKeepingID(nil)
	r = l.newRelease(h, now, patience)
	c.releasing, c.sentAt = r, now
	return waiters, r, nil
}

// beginReleaseOfShare ends a share in a lease. If it was the last one, it returns the release of the lease.
func (h *hold) beginReleaseOfShare(now clock.Instant, patience time.Duration) *release {
	l := h.lease
	first := l.holds.First() == h
	l.endHold(h, nil)
	if !l.isUnused() {
		if first {
			l.reschedule()
		}
		return nil
	}
	l.detachKeepingID(nil)
	return l.newRelease(h, now, patience)
}

// A release returns a lease to the server: release.lua is sent, and sent again while the server cannot answer. Callers of this
// process that come in the meantime wait for its end, except readers that may share a lease. The shard's mutex guards lastErr,
// except for reads by the goroutine of the try.
type release struct {
	l         *lease
	begun     clock.Instant
	place     string        // the name of the hold's kept place; "": none
	served    []string      // members of its batch that may still be in the queue
	until     clock.Instant // no try begins after that
	deadline  clock.Instant // of the hold
	lingers   time.Time     // the key stays taken until then; zero: not at all
	outage    outage
	lastErr   error        // of the last try
	timer     timers.Timer // the next try
	err       error        // of the release; valid once over is closed
	end       *recordEnd   // how the hold's run ends; nil: there is none
	recorded  bool         // the record was the run's; valid like err
	recordErr error
	over      chan struct{} // closed at its end
}

// newRelease prepares a release of the lease, after detachKeepingID.
func (l *lease) newRelease(h *hold, now clock.Instant, patience time.Duration) *release {
	r := &release{l: l, begun: now, until: now.Add(patience), deadline: h.Deadline(), over: make(chan struct{})}
	r.timer.SetOwner(r)
	l.c.e.endings.Begin(true)
	if h.keepsPlace() {
		r.place = h.Req.Place
	}
	if r.end = h.end; r.end == nil && l.run != nil && l.run.begun == 0 {
		r.end = &recordEnd{RecordEnd: &core.RecordEnd{Run: l.run.name, Outcome: recordVoid}} // a copy of its begin may have run
	}
	if r.end != nil {
		r.end.release = r
	}
	if l.grantBatch != nil {
		r.served = l.grantBatch.servedIDs(l.grantBatch.removed)
	}
	if !l.c.isShared() {
		r.lingers = h.KeptUntil()
	}
	return r
}

// call prepares an execution of release.lua to be sent now. The key stays taken for the rest of the minimum hold.
func (r *release) call(now clock.Instant) *transport.Call {
	l, c, e := r.l, r.l.c, r.l.c.e
	n := script.Release{Keys: &c.keys, ID: l.id, Read: l.isRead(), Mark: l.id.Copied(), Place: r.place, Permit: c.isPermit(), Served: r.served}
	if r.end != nil {
		n.Record = r.end.RecordEnd
	}
	if !r.lingers.IsZero() {
		n.Linger = max(time.Until(r.lingers), 0)
	}
	k := n.Call(e.sender.Context(), e.scripts, r.onAnswer)
	k.Limit = max(r.until.Sub(now), time.Millisecond)
	return k
}

// Due sends release.lua again.
func (r *release) Due() { r.l.c.e.sender.Start(r.call(clock.Now())) }

// run sends release.lua, and waits up to patience for the end of the release.
func (r *release) run(patience time.Duration) error {
	r.l.c.e.sendRelease(r.call(r.begun), patience)
	return r.await(patience)
}

// sendRelease sends a call that ends holds.
func (e *Engine) sendRelease(k *transport.Call, patience time.Duration) {
	if patience < e.cfg.UnlockTimeout {
		e.sender.Start(k) // the caller does not wait that long
	} else {
		e.sender.Inline(k, true)
	}
}

// await waits up to patience for the end of the release.
func (r *release) await(patience time.Duration) error {
	c, e := r.l.c, r.l.c.e
	select {
	case <-r.over:
		return r.err
	default:
	}
	now := clock.Now()
	ctx := e.releaseTimeouts.Next(now)
	if left := patience - now.Sub(r.begun); left < e.cfg.UnlockTimeout-time.Millisecond || left > e.cfg.UnlockTimeout {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(e.sender.Context(), left)
		defer cancel()
	}
	select {
	case <-r.over:
		return r.err
	case <-ctx.Done():
	}
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	if r.lastErr != nil {
		return transport.Failure(r.lastErr)
	}
	return fmt.Errorf("%w: the release was not confirmed within %v", core.ErrUnavailable, patience)
}

// onAnswer handles the answer to release.lua.
func (r *release) onAnswer(reply *transport.Reply) {
	if r.waitOut(reply.Err) || r.end != nil && reply.Err == nil && r.waitOut(reply.ReplicaErr) {
		return
	}
	if r.lastErr != nil && reply.Err != nil && !transport.IsReply(reply.Err) {
		reply.Err = r.lastErr // which says more than a timeout
	}
	r.readRecord(reply)
	r.err = r.l.onReleased(reply, r.deadline)
	r.l.c.e.endings.Done(true) // after a failure, a cancellation has begun
	close(r.over)
}

// waitOut makes the release wait for the server after a try failed with err, and reports whether it waits.
func (r *release) waitOut(err error) bool {
	c, e := r.l.c, r.l.c.e
	if !transport.IsTemporary(err) {
		return false
	}
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	now := clock.Now()
	next := now.Add(r.outage.note(now))
	if next >= r.until {
		return false
	}
	r.lastErr = err
	e.endings.Failed(err)
	e.schedule.Set(&r.timer, next, 0)
	return true
}

// onReleased handles the answer to release.lua.
func (l *lease) onReleased(reply *transport.Reply, deadline clock.Instant) error {
	c, e := l.c, l.c.e
	e.ids.remove(l.id)
	outcome, err := script.EndedAnswer(reply)
	err = transport.Failure(err)
	switch {
	case err != nil:
		l.cancel()
	case outcome == script.More:
		e.pollForRest(c.keys, c.isPermit())
	case outcome == script.NotHeld && clock.Now() >= deadline:
		err = fmt.Errorf("%w: the lease ran out before the release", core.ErrLost)
	case outcome == script.NotHeld && l.id.Releases() == 1: // otherwise an earlier copy may have released it
		err = errDeleted
	}
	if outcome == script.NotHeld && (l.placed != nil || l.grantBatch != nil) {
		l.cancel() // ends the kept place, and the tickets of served members
	}
	c.shard.mu.Lock()
	c.releasing = nil
	if outcome != script.Unknown { // otherwise its cancel is recorded
		now := clock.Now()
		c.shard.released.note(c.lockKey(), l.id.Number(), now)
		e.recovery.ended(reply.Sent)
		e.watch.Wrote(now)
	}
	c.sendRequest(nil)
	c.unlock()
	return err
}

// A cancellation ends ids on the server, whether they are queued, hold the lock, or their acquires are still in flight. It is
// retried until the server confirms it or the ids must have expired (rule 3 of docs/protocol.md).
type cancellation struct {
	e         *Engine
	keys      script.KeySet
	permit    bool // of a semaphore
	prepare   prepareCall
	confirmed func(sent clock.Instant) // called once the server has confirmed it, with when the call was sent
	over      func()                   // called once it is not sent again; nil: nothing
	isHold    bool                     // of a lease that has not ended
	failed    bool                     // permanently
	until     clock.Instant
	delay     time.Duration
	timer     timers.Timer
}

// A cancelTarget is an id that is to end on the server.
type cancelTarget struct {
	key       lockKey
	id        string
	lease     time.Duration // the lease of a hold of the id, if there is one
	mark      bool          // write a done mark: the id is refused from now on
	place     string        // the name of its kept place; "": none
	keepPlace time.Duration // how long the place is kept from now on; 0: not at all
	endPlace  int64         // the token of a hold whose place ends instead; 0: none
	served    []string      // members of its hold's batch, which also end
	run       string        // of the key's work, which becomes void unless it has begun to work; "": none
	begun     int64         // the token of the record since it has; 0: it has not
	isHold    bool          // of a lease that has not ended
}

const (
	cancelTimeout  = 2 * time.Second
	minCancelDelay = 50 * time.Millisecond
	maxCancelDelay = 2 * time.Second
)

// cancelID ends an id on the server, in the background.
func (e *Engine) cancelID(n script.KeySet, u cancelTarget) {
	run := &script.Cancel{
		Keys: &n, ID: u.id, Mark: u.mark, Place: u.place, KeepPlace: u.keepPlace, EndPlace: u.endPlace, Permit: u.key.permit, Served: u.served, Run: u.run, Begun: u.begun,
	}
	e.cancelBy(run.Call, n, u)
}

// cancelBy is cancelID with the given call.
func (e *Engine) cancelBy(prepare prepareCall, n script.KeySet, u cancelTarget) {
	confirmed := func(sent clock.Instant) { // the id may have held the lock
		e.noteEnded(u.key, u.id)
		e.recovery.ended(sent)
		e.watch.Wrote(clock.Now())
	}
	c := &cancellation{keys: n, permit: u.key.permit, prepare: prepare, confirmed: confirmed, isHold: u.isHold}
	if number, ours := e.idStem.Number(u.id); ours && u.run != "" {
		e.voids.begin(u.key, number)
		c.over = func() { e.voids.end(u.key, number) }
	}
	e.cancel(c, u.lease)
}

// cancel sends a cancellation of ids whose holds last no longer than lease. A ticket may live longer.
func (e *Engine) cancel(c *cancellation, lease time.Duration) {
	if !c.isHold {
		lease = max(lease, script.QueueTTL)
	}
	c.e, c.until, c.delay = e, clock.Now().Add(lease+script.AcceptWindow), minCancelDelay
	c.timer.SetOwner(c)
	e.endings.Begin(c.isHold)
	c.send()
}

// Due sends the cancellation again, or records that its hold has expired.
func (c *cancellation) Due() {
	if c.failed {
		c.e.endings.Expired()
	} else {
		c.send()
	}
}

func (c *cancellation) send() {
	k := c.prepare(c.e.sender.Context(), c.e.scripts, c.onCancelled)
	k.Limit = cancelTimeout
	c.e.sender.Start(k)
}

func (c *cancellation) onCancelled(a *transport.Reply) {
	e := c.e
	switch outcome, err := script.EndedAnswer(a); {
	case err == nil:
		c.confirmed(a.Sent)
		c.end()
		if outcome == script.More {
			e.pollForRest(c.keys, c.permit)
		}
		e.endings.Done(c.isHold)
	case e.sender.Context().Err() != nil: // Close has stopped waiting
	case transport.IsFinal(err) || clock.Now() > c.until:
		c.warn(err)
		c.end()
		e.endings.Failed(err)
		if c.failed = true; c.isHold {
			e.schedule.Set(&c.timer, c.until, 0)
		}
		e.endings.GiveUp()
	default:
		e.endings.Failed(err)
		delay := c.delay
		c.delay = min(2*delay, maxCancelDelay) // set before the next try, which reads it, can begin
		e.schedule.SetAfter(&c.timer, delay, 0)
	}
}

func (c *cancellation) end() {
	if c.over != nil {
		c.over()
	}
}

// warn logs that the id may stay on the server until its lease expires.
func (c *cancellation) warn(err error) {
	if missed, ok := c.e.unreleased.Allow(loglimit.KindOf(err)); ok {
		c.e.cfg.Logger.Warn("lockmw: could not release a lock that no caller needs; it expires with its lease",
			"key", c.keys.Holder(), "error", err, "suppressed", missed)
	}
}

// pollForRest sends a poll without tickets, because a queue needs more work than one execution does.
func (e *Engine) pollForRest(n script.KeySet, permits bool) {
	p := script.Poll{Keys: &n, Permits: permits}
	e.sender.Start(p.Call(e.sender.Context(), e.scripts, func(reply *transport.Reply) {
		if a, _ := script.PollAnswer(reply, 0, e.layout.InboxPrefix()); a.More {
			e.pollForRest(n, permits)
		}
	}))
}
