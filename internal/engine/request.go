package engine

import (
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/timers"
	"github.com/lockmw/go/internal/transport"
)

// A request is the way of one id to the lock: acquire.lua is sent, and answered with a grant or a place in the queue. A queued
// request is granted later, by a push or a poll. The shard's mutex guards it.
type request struct {
	c           *cohort
	id          *script.ID
	leader      *localq.Waiter // the waiter for which it is sent
	predecessor *script.Predecessor
	queues      bool // queue if the lock is not free
	snapshot    snapshot
	seen        int64 // the greatest token of the counter before it was sent, or of the key since

	over             bool            // granted, failed or cancelled
	queued           bool            // the server has a ticket for it
	several          bool            // the server was told that it stands for several callers
	calls            int             // how many callers it stands for, as reported by the last call or to be reported by the next
	stamp            int64           // the fencing counter in the last answer that said "queued"
	acceptBy         clock.Instant   // until when a push with a number above the stamp is reliable
	place            int64           // in the queue
	confirming       bool            // the grant may exist, and an acquire is in flight whose answer decides
	run              *leaseRun       // of the lease that it was granted; nil: none so far
	holders          []core.Holder   // in the last answer
	position         int             // in the queue, in the last answer; 0: unknown
	ends             clock.Instant   // when the first hold in the way may end, by the last answer
	answered         clock.Instant   // when the call was sent whose answer came last, apart from peeks
	next             question        // the next question, as far as known
	asking           question        // a poll or a peek that waits for its turn
	behindReaders    bool            // a peek has found that readers hold the lock
	distrust         clock.Instant   // answers to calls sent before then make no push reliable; 0: all do
	asked            int64           // the subscription when the last call was sent; 0: none
	pushSubscription int64           // the subscription from before the last answer that said "queued"; 0: none
	pushed           bool            // a message of a grant has arrived
	cleared          bool            // it was sent again after an ended hold of this process was cleared out of its way
	push             *script.Message // a message that arrived before the answer to acquire.lua, or needs confirmation

	grantBatch *grantBatch   // the batch that it is a member of; nil: none so far
	hintAt     clock.Instant // when the last question that a message caused was or will be sent; 0: never
	doubted    bool          // before the answer "queued", a message said that the grant was taken away
	contended  bool          // before the grant, a message said that others wait
	lastErr    error         // of the last try or poll, or of the renewal that readers waited for
	outage     outage
	timer      timers.Timer // the next poll, or the next try while the server cannot answer
}

// send sends acquire.lua, possibly again.
func (r *request) send() { r.c.e.sender.Start(r.call()) }

// call prepares an execution of acquire.lua.
func (r *request) call() *transport.Call {
	c, e := r.c, r.c.e
	r.asked = c.slot.inbox.Subscription()
	want := r.leader.Req
	free, queued := c.tokensWanted()
	if !r.queues {
		queued = 0
	}
	keep := want.KeepPlace
	if keep > 0 {
		keep += min(want.Wait, maxWaitKept)
	}
	r.count(c.waiters.Len - c.waiters.Tries)
	a := script.Acquire{
		Keys: &c.keys, ID: r.id, Lease: r.lease(), Mode: want.Mode, Trace: want.Trace,
		Info:  holderInfoOf(want),
		Inbox: c.slot.inbox.Address, Tokens: free, QueueTokens: queued, MayBatch: queued > 0 && e.mayBatch(want), Calls: r.calls,
		Predecessor: r.predecessor, Place: want.Place, KeepPlace: keep, Vote: want.Vote, Permits: want.Permits, Weight: want.Weight,
		Record: want.Record,
	}
	ctx := r.leader.Ctx
	if r.queued { // on behalf of the present waiters
		ctx = e.sender.Context()
	}
	if queued > 0 {
		a.SecretOf = e.secretOf
	}
	k := a.Call(ctx, e.scripts, r.onAcquired)
	if e.sender.MayResend() {
		k.Late = r.onLateAnswer
	}
	return k
}

// sendCleared sends a request again that must not queue, after an ended hold of this process was cleared out of its way.
func (r *request) sendCleared() {
	r.c.shard.mu.Lock()
	defer r.c.shard.mu.Unlock()
	if !r.over {
		r.cleared = true
		r.send()
	}
}

// holderInfoOf returns the facts about a caller that the server stores.
func holderInfoOf(r *core.Request) script.HolderInfo {
	a := script.HolderInfo{Owner: r.Owner, Fixed: r.Fixed, MinHold: r.MinHold, Place: r.Place, Label: r.Label}
	if r.Vote != nil {
		a.Process = r.Vote.Process
	}
	return a
}

// count records how many callers the next call reports to the server.
func (r *request) count(calls int) { r.calls, r.several = calls, r.several || calls > 1 }

// maxWaitKept bounds the part of the wait during which a place is kept if the process is killed.
const maxWaitKept = 10 * time.Minute

// onAcquired handles the answer to acquire.lua.
func (r *request) onAcquired(reply *transport.Reply) {
	c := r.c
	c.shard.mu.Lock()
	r.onAnswer(reply)
	paused, since, err := r.outage.paused, r.outage.since, r.lastErr
	c.unlock()
	if paused {
		c.e.warnOfOutage(c.key, since, err)
	}
	if paused && transport.IsPoolTimeout(err) {
		c.e.findOutage(c, err)
	}
}

func (r *request) onAnswer(reply *transport.Reply) {
	c := r.c
	if r.over {
		r.onAnswerTooLate(reply)
		return
	}
	r.outage.paused, r.confirming = false, false
	a, err := script.AcquireAnswer(reply, c.e.layout.InboxPrefix())
	if err != nil {
		r.onFailed(err)
		return
	}
	switch a.Outcome {
	case script.Held:
		if reply.ReplicaErr != nil {
			r.onFailed(reply.ReplicaErr)
			return
		}
		r.noteClock(reply.Sent, a.Clock)
		c.onGranted(r, a.Grant, reply.Sent, r.leaseEnd(reply.Sent), true)
	case script.Queued:
		r.place = a.Place
		if !r.queues {
			if r.cleared || !r.disownEnded(reply.Sent, a.Wait.Holders, r.sendCleared) {
				r.onBusy(a.Wait.Holders)
			}
			return
		}
		r.disownEnded(reply.Sent, a.Wait.Holders, func() {})
		r.onQueued(reply.Sent, a.Stamp, a.Wait, a.Next)
		if p := r.push; p != nil && !r.over {
			r.onPush(p)
		}
	case script.Settled:
		r.settle(a.Record)
	case script.Again:
		r.confirming = true
		r.send()
	default: // the id has ended, and must not be used again
		c.detach(r)
		c.sendRequest(nil)
	}
}

// noteClock passes on the server's clock, which the answer that grants a vote contains.
func (r *request) noteClock(sent clock.Instant, server int64) {
	if v := r.leader.Req.Vote; v != nil && server != 0 {
		v.OnClock(sent.Time(), server)
	}
}

// onLateAnswer handles a second answer to a call. While the request lasts, only the first answer counts.
func (r *request) onLateAnswer(reply *transport.Reply) {
	r.c.shard.mu.Lock()
	defer r.c.unlock()
	if r.over {
		r.onAnswerTooLate(reply)
	}
}

// onAnswerTooLate handles an answer to acquire.lua that arrived after the request had ended.
func (r *request) onAnswerTooLate(reply *transport.Reply) {
	r.cancelAgain(reply.Err)
	if r.grantBatch == nil {
		return
	}
	if a, err := script.AcquireAnswer(reply, r.c.e.layout.InboxPrefix()); err == nil && a.Outcome == script.Held {
		r.loseEarlierLease()
	}
}

// isHeld reports whether the process has a lease under the request's id: an earlier answer has granted it.
func (r *request) isHeld() bool {
	_, held := r.c.e.ids.find(r.id.Number()).(*lease)
	return held
}

// cancelAgain cancels a request that had ended before an answer arrived, unless its grant is in use: the first cancel may have
// overtaken the acquire.
func (r *request) cancelAgain(err error) {
	if !r.isHeld() && (err == nil || r.id.Copies() > 0) {
		r.cancel()
	}
}

// onBusy ends a request that must not queue.
func (r *request) onBusy(holders []core.Holder) {
	c := r.c
	r.refused()
	c.failTryLocks(localq.Busy(holders), r.snapshot.joined)
	c.sendRequest(nil) // for callers that have joined since
}

// refused ends a request whose last call has written nothing.
func (r *request) refused() {
	r.c.detach(r)
	if r.id.Copied() {
		r.cancel() // another copy may still arrive
	}
}

// failed ends a request with an unknown outcome.
func (r *request) failed() {
	r.c.detach(r)
	r.forget()
}

// onFailed ends the request, or makes it wait for the server.
func (r *request) onFailed(err error) {
	if transport.IsTemporary(err) && r.waitOut(err) {
		return
	}
	c := r.c
	r.failed()
	if !r.leader.HasEnded() && !transport.IsTemporary(err) {
		c.failWaiters(&core.AcquireError{Err: transport.Failure(err)})
	}
	c.sendRequest(nil)
	if next := c.request; next != nil {
		next.lastErr = r.lastErr // for callers whose time ends before the answer
	}
}

// forget cancels a failed request if a copy of it may have run: an error does not prove that nothing has happened. It cancels the
// predecessor in any case.
func (r *request) forget() {
	if r.id.Copies() > 0 {
		r.cancel()
	} else {
		r.cancelPredecessor()
	}
}

// lease returns the lease that the caller asks for.
func (r *request) lease() time.Duration { return r.leader.Req.Lease }

// leaseEnd returns the deadline of a lease that was set by a call sent at that time.
func (r *request) leaseEnd(sent clock.Instant) clock.Instant {
	return sent.Add(r.lease() - r.c.e.cfg.margin(r.lease()))
}

// cancel ends the request and its predecessor on the server, whatever their state.
func (r *request) cancel() {
	r.c.e.cancelID(r.c.keys, r.target(true))
	r.cancelPredecessor()
}

// target describes the request for a cancel.
func (r *request) target(mark bool) cancelTarget {
	want := r.leader.Req
	t := cancelTarget{
		key: r.c.lockKey(), id: r.id.String(), lease: want.Lease, mark: mark, place: want.Place, keepPlace: want.KeepPlace,
	}
	if want.Record != nil {
		t.run = want.Record.Run
		if r.run != nil {
			t.begun = r.run.begun
		}
	}
	return t
}

// cancelPredecessor ends the request's predecessor on the server, once.
func (r *request) cancelPredecessor() {
	r.c.cancelPredecessor(r.predecessor)
	r.predecessor = nil
}

// cancelPredecessor ends p on the server, unless it is nil.
func (c *cohort) cancelPredecessor(p *script.Predecessor) {
	if p != nil {
		c.e.cancelID(c.keys, cancelTarget{key: c.lockKey(), id: p.ID.String(), lease: p.Lease, mark: true, isHold: !p.Lost})
	}
}

// onQueued handles an answer that says "queued", and schedules the next poll. permits is when the first permit of a semaphore may
// end.
func (r *request) onQueued(sent clock.Instant, stamp int64, wait core.Wait, permits time.Duration) {
	c, e := r.c, r.c.e
	news := !r.queued
	if news {
		r.addQueued(1)
		c.stopSharingReaders()
	}
	r.behindReaders = r.behindReaders && tokenOf(r.holders) == tokenOf(wait.Holders)
	r.next = peekIt
	r.queued, r.holders, r.position, r.answered = true, wait.Holders, wait.Position, sent
	r.expectPush(sent, stamp, r.asked)
	if news && (c.isShared() || c.isPermit()) {
		c.refuseExcess(wait.Holders)
	}
	c.failTryLocks(localq.Busy(wait.Holders), c.waiters.Joined)
	if c.waiters.Len == 0 {
		c.cancelIfUnwanted()
		return
	}
	if news {
		e.inboxes.ReconnectNow(c.slot.inbox)
	}
	c.waiters.Notify(wait)
	left := permits
	if !c.isPermit() {
		left = firstEnd(wait.Holders)
	}
	r.noteEnd(left)
	next, slack := min(clock.Until(r.ends), script.PollInterval), pollSlack
	if next < script.PollInterval { // the holder may not renew
		slack = 0 // an earlier poll would get the same answer
	}
	if news && c.slot.inbox.Subscription() != r.snapshot.subscription {
		next, slack = 0, 0 // a grant may have been published before the subscription began
	}
	if r.doubted {
		r.doubted, r.acceptBy = false, 0
		next, slack = 0, 0
	}
	if rest := clock.Until(r.hintAt); rest > 0 && rest < next {
		next, slack = rest, 0
	}
	if next < script.PollInterval {
		r.next = pollIt
	}
	e.schedule.SetAfter(&r.timer, next, slack)
}

// tokenOf returns the token of the first holder, or 0 if there is none.
func tokenOf(holders []core.Holder) int64 {
	if len(holders) == 0 {
		return 0
	}
	return holders[0].Token
}

// expectPush records that the server has answered "queued" to a call that was sent at that time, with that subscription. Within
// the accept window, a push is reliable if its number is above the stamp.
func (r *request) expectPush(sent clock.Instant, stamp, subscription int64) {
	e := r.c.e
	r.lastErr = nil
	if sent >= r.distrust {
		r.stamp, r.pushSubscription = stamp, subscription
		r.acceptBy = sent.Add(script.AcceptWindow - e.cfg.margin(script.AcceptWindow))
	}
	e.inboxes.Use(r.c.slot.inbox)
	e.watch.WroteGrant(clock.Now())
}

// pollNow schedules a poll for the request now.
func (r *request) pollNow() { r.pollAt(clock.Now()) }

// pollAt schedules a poll for the request at that time.
func (r *request) pollAt(at clock.Instant) {
	r.next = pollIt
	r.c.e.schedule.Set(&r.timer, at, 0)
}

// onLate handles a grant that was answered after its own deadline (rule 17 of docs/protocol.md). An immediate poll finds out
// whether the server still has it; if not, the request is queued again in its old place. Until an answer says "queued", no push
// is reliable.
func (r *request) onLate() {
	if !r.queued {
		r.queued = true
		r.addQueued(1)
	}
	r.acceptBy = 0
	r.pollNow()
}
