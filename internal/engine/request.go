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

// A request is one id's way to the lock: acquire.lua is sent, and answered with a grant or a place in the
// queue. There a push or a poll brings the grant. The shard's mutex guards it.
type request struct {
	c           *cohort
	id          *script.ID
	leader      *localq.Waiter // the waiter that it is sent for
	predecessor *script.Predecessor
	queues      bool // queue if the lock is not free
	snapshot    snapshot
	seen        int64 // the greatest token of the counter before it was sent, or of the key since

	over          bool            // granted, failed or cancelled
	queued        bool            // the server has a ticket for it
	several       bool            // the server was told that it stands for more than one caller
	calls         int             // how many it stands for, as the server is told by the next run or was by the last
	stamp         int64           // the fencing counter in the last answer that said so
	acceptBy      clock.Instant   // until when a push may be relied on whose number is greater than the stamp
	place         int64           // in the queue
	granted       bool            // by a push or a poll, and an acquire is under way that confirms it: see confirm
	holders       []core.Holder   // in the last answer
	position      int             // in the queue, in the last answer; 0: unknown
	ends          clock.Instant   // when the first of those in the way may be gone, by the last answer
	answered      clock.Instant   // when the run was sent that gave the last answer, other than a peek
	next          question        // what is asked next, as far as is known
	asking        question        // a poll or a peek that waits for its turn
	behindReaders bool            // a peek has said that readers hold the lock
	distrust      clock.Instant   // an answer to what was sent before then makes no push reliable; 0: each does
	asked         int64           // the subscription when the last run was sent; 0: none
	hears         int64           // the subscription from before the last answer that said "queued"; 0: none
	pushed        bool            // a message of a grant has come
	cleared       bool            // it is sent again, as a hold of this process that has ended was in its way
	push          *script.Message // came before the answer to acquire.lua

	grantBatch *grantBatch   // which it is one of; nil: none so far
	hintAt     clock.Instant // when the last poll was sent, or is going to be, that a message led to; 0: never
	doubted    bool          // a message said that the grant was taken away, before the answer that says "queued"
	contended  bool          // a message said that others wait, before the answer that grants it
	lastErr    error         // of the last try or poll, or of the renewal that readers waited for
	outage     outage
	timer      timers.Timer // the next poll, or the next try while the server cannot answer
}

// send sends acquire.lua, or sends it again.
func (r *request) send() { r.c.e.sender.Start(r.call()) }

// call prepares a run of acquire.lua.
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
		About: aboutOf(want),
		Inbox: c.slot.inbox.Address, Tokens: free, QueueTokens: queued, Runs: queued > 0 && e.mayBatch(want), Calls: r.calls,
		Predecessor: r.predecessor, Place: want.Place, KeepPlace: keep, Vote: want.Vote, Permits: want.Permits, Weight: want.Weight,
	}
	ctx := r.leader.Ctx
	if r.queued { // for whoever waits by now
		ctx = e.sender.Context()
	}
	if queued > 0 {
		a.SecretOf = e.secretOf
	}
	k := a.Call(ctx, e.scripts, r.onAcquired)
	if e.sender.SendsAgain() {
		k.Late = r.onLateAnswer
	}
	return k
}

// sendCleared sends a request again that was not to be queued: a hold of this process that has ended was in its way.
func (r *request) sendCleared() {
	r.c.shard.mu.Lock()
	defer r.c.shard.mu.Unlock()
	if !r.over {
		r.cleared = true
		r.send()
	}
}

// aboutOf is what the server is told of a caller.
func aboutOf(r *core.Request) script.About {
	a := script.About{Owner: r.Owner, Fixed: r.Fixed, MinHold: r.MinHold, Place: r.Place, Label: r.Label}
	if r.Vote != nil {
		a.Process = r.Vote.Process
	}
	return a
}

// count notes how many callers the next run tells the server of.
func (r *request) count(calls int) { r.calls, r.several = calls, r.several || calls > 1 }

// maxWaitKept bounds the wait for which a place is kept if the process is killed meanwhile.
const maxWaitKept = 10 * time.Minute

// onAcquired deals with the answer to acquire.lua.
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
	r.outage.paused, r.granted = false, false
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
	case script.Again:
		r.granted = true // perhaps: the answer to this one says it
		r.send()
	default: // the id is over, and must not be used again
		c.detach(r)
		c.sendRequest(nil)
	}
}

// noteClock tells what the answer that grants a vote says of the server's clock.
func (r *request) noteClock(sent clock.Instant, server int64) {
	if v := r.leader.Req.Vote; v != nil && server != 0 {
		v.Clocked(sent.Time(), server)
	}
}

// onLateAnswer deals with an answer to a run that has had one. While the request goes on, that one counts.
func (r *request) onLateAnswer(reply *transport.Reply) {
	r.c.shard.mu.Lock()
	defer r.c.unlock()
	if r.over {
		r.onAnswerTooLate(reply)
	}
}

// onAnswerTooLate deals with an answer to a run of acquire.lua that came when the request was over.
func (r *request) onAnswerTooLate(reply *transport.Reply) {
	r.cancelAgain(reply.Err)
	if r.grantBatch == nil {
		return
	}
	if a, err := script.AcquireAnswer(reply, r.c.e.layout.InboxPrefix()); err == nil && a.Outcome == script.Held {
		r.loseEarlierLease()
	}
}

// cancelAgain cancels a request that was over before an answer came, unless its grant is in use: the first cancel may have
// overtaken the acquire.
func (r *request) cancelAgain(err error) {
	if _, held := r.c.e.ids.find(r.id.Number()).(*lease); !held && (err == nil || r.id.Copies() > 0) {
		r.cancel()
	}
}

// onBusy ends a request that was not to be queued.
func (r *request) onBusy(holders []core.Holder) {
	c := r.c
	r.refused()
	c.failTryLocks(localq.Busy(holders), r.snapshot.joined)
	c.sendRequest(nil) // for callers that have joined since it was sent
}

// refused ends a request whose last run has written nothing.
func (r *request) refused() {
	r.c.detach(r)
	if r.id.Copied() {
		r.cancel() // another copy may still arrive
	}
}

// failed ends a request of which it is not known what became of it.
func (r *request) failed() {
	r.c.detach(r)
	r.forget()
}

// onFailed ends the request, or lets it wait for the server.
func (r *request) onFailed(err error) {
	if transport.IsPassing(err) && r.waitOut(err) {
		return
	}
	c := r.c
	r.failed()
	if !r.leader.HasEnded() && !transport.IsPassing(err) {
		c.failWaiters(&core.AcquireError{Err: transport.Failure(err)})
	}
	c.sendRequest(nil)
	if next := c.request; next != nil {
		next.lastErr = r.lastErr // for callers whose time is over before the answer
	}
}

// forget has the server forget a request that failed, if it may know of it: an answer that is an error does not say that
// nothing has happened. Its predecessor is forgotten in any case.
func (r *request) forget() {
	if r.id.Copies() > 0 {
		r.cancel()
	} else if r.predecessor != nil {
		r.c.e.cancelID(r.c.keys, r.c.predecessorTarget(r.predecessor))
	}
}

// lease returns the lease that the caller wants.
func (r *request) lease() time.Duration { return r.leader.Req.Lease }

// leaseEnd returns until when a lease is good that a call sent at that time has set.
func (r *request) leaseEnd(sent clock.Instant) clock.Instant {
	return sent.Add(r.lease() - r.c.e.margin(r.lease()))
}

// cancel has the server forget the request and its predecessor, whatever became of them.
func (r *request) cancel() {
	e := r.c.e
	e.cancelID(r.c.keys, r.target(true))
	if r.predecessor != nil {
		e.cancelID(r.c.keys, r.c.predecessorTarget(r.predecessor))
	}
}

// target returns what the server is to forget of the request.
func (r *request) target(mark bool) cancelTarget {
	want := r.leader.Req
	return cancelTarget{
		key: r.c.lockKey(), id: r.id.String(), lease: want.Lease, mark: mark, place: want.Place, keepPlace: want.KeepPlace,
	}
}

func (c *cohort) predecessorTarget(p *script.Predecessor) cancelTarget {
	return cancelTarget{key: c.lockKey(), id: p.ID.String(), lease: p.Lease, mark: true}
}

// onQueued deals with an answer that says that the request is queued, and plans the next poll. permits is when the first permit
// may end, of a semaphore.
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
	r.rely(sent, stamp, r.asked)
	if news && (c.isShared() || c.isPermit()) {
		c.refuseExcess(wait.Holders)
	}
	c.failTryLocks(localq.Busy(wait.Holders), c.waiters.Joined)
	if c.waiters.Len == 0 {
		c.cancelIfUnwanted()
		return
	}
	if news {
		e.inboxes.HurryUp(c.slot.inbox)
	}
	c.waiters.Notify(wait)
	left := permits
	if !c.isPermit() {
		left = firstEnd(wait.Holders)
	}
	r.noteEnd(left)
	next, slack := min(clock.Until(r.ends), script.PollInterval), pollSlack
	if next < script.PollInterval { // the holder may not come back
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

// tokenOf returns the token of the first of holders; 0: there is none.
func tokenOf(holders []core.Holder) int64 {
	if len(holders) == 0 {
		return 0
	}
	return holders[0].Token
}

// rely notes that the server has answered that the request is queued, to a run that was sent at that time, with that subscription. A
// push that comes in the accept window may be relied on if its number is greater than the stamp.
func (r *request) rely(sent clock.Instant, stamp, hears int64) {
	e := r.c.e
	r.lastErr = nil
	if sent >= r.distrust {
		r.stamp, r.hears = stamp, hears
		r.acceptBy = sent.Add(script.AcceptWindow - e.margin(script.AcceptWindow))
	}
	e.inboxes.Use(r.c.slot.inbox)
	e.identity.used(clock.Now())
}

// pollNow has the request be polled for now.
func (r *request) pollNow() { r.pollAt(clock.Now()) }

// pollAt has the request be polled for then.
func (r *request) pollAt(at clock.Instant) {
	r.next = pollIt
	r.c.e.schedule.Set(&r.timer, at, 0)
}

// onLate deals with a grant that was answered after its own deadline (rule 17 of docs/protocol.md). A poll at once
// says whether the server still has it. If it has not, the request goes back to its place in the queue. Until an
// answer says "queued", no push is relied on.
func (r *request) onLate() {
	if !r.queued {
		r.queued = true
		r.addQueued(1)
	}
	r.acceptBy = 0
	r.pollNow()
}
