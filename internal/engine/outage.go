package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
	"github.com/lockmw/go/internal/loglimit"
	"github.com/lockmw/go/internal/timers"
	"github.com/lockmw/go/internal/transport"
)

// An outage is a time in which the server cannot do what it is asked: it is unreachable, starting, failing over or busy, or a
// Cluster moves the slot. Callers with time left wait for its end (rule 14 of docs/protocol.md).
type outage struct {
	tries  int           // failed so far
	since  clock.Instant // when the first one failed
	paused bool          // pausing before the next try
}

// Pauses between tries double within these limits.
const (
	minTryPause = 20 * time.Millisecond
	maxTryPause = 500 * time.Millisecond
)

// tryPause returns the pause after that many failed tries. It is shortened at random by up to a quarter, so that callers that met
// the same outage do not all retry together.
func tryPause(tries int) time.Duration {
	pause := min(minTryPause<<min(tries-1, 10), maxTryPause)
	return pause - rand.N(pause/4+1)
}

// note counts a failed try, and returns the next pause.
func (o *outage) note(now clock.Instant) time.Duration {
	if o.tries == 0 {
		o.since = now
	}
	o.tries++
	return tryPause(o.tries)
}

// waitOut makes the request wait for the server after a try failed with err, and ends the waits of callers that do not wait for
// an outage to end. It reports whether the request waits.
func (r *request) waitOut(err error) bool {
	c, e := r.c, r.c.e
	pause := r.outage.note(clock.Now())
	c.failFast(err, clock.Since(r.outage.since) < slotMoveWait)
	if c.waiters.Len == 0 || r.leader.HasEnded() {
		return false
	}
	r.lastErr, r.outage.paused = err, true
	e.schedule.SetAfter(&r.timer, pause, 0)
	return true
}

// slotMoveWait is how long a call that only tries waits for a slot that moves.
const slotMoveWait = 200 * time.Millisecond

// tryAgain sends a request again under its id, because its outcome is unknown.
func (r *request) tryAgain() {
	r.outage.paused = false
	r.send()
}

// failFast ends the waits of callers that do not wait for a server which answers with err. It does not treat a slot that moves
// quickly as an outage, nor an exhausted connection pool before the server was checked.
func (c *cohort) failFast(err error, quick bool) {
	moves, exhausted := transport.IsMoving(err), transport.IsPoolTimeout(err)
	c.failIf(transport.Failure(err), func(w *localq.Waiter) bool {
		return w.Req.Wait == 0 && !(moves && quick) || w.EndsWithOutage() && !moves && !exhausted
	})
}

// failIf ends the chosen waits. It leaves out callers whose context has ended: they get that error, because a connection that
// obeys the context's deadline fails at the same time.
func (c *cohort) failIf(err error, chosen func(w *localq.Waiter) bool) {
	for w := range c.waiters.All() {
		if !w.HasEnded() && chosen(w) {
			c.removeWaiter(w)
			w.Finish(nil, &core.AcquireError{Err: err})
		}
	}
}

// findOutage checks in the background whether the connection pool is exhausted because of an outage. If so, it ends the waits of
// callers that do not wait for an outage to end.
func (e *Engine) findOutage(c *cohort, err error) {
	e.diagnoses.ExplainAsync(e.serverOf(c.key), transport.Failure(err), func(explained error) {
		if core.FaultOf(explained) != core.Outage {
			return
		}
		c.shard.mu.Lock()
		defer c.unlock()
		c.failIf(explained, (*localq.Waiter).EndsWithOutage)
		c.dropUnwanted()
	})
}

// retryNow ends the pause of the cohort's request, for a caller that fails fast if the server is still unreachable.
func (c *cohort) retryNow() {
	if r := c.request; r != nil && r.outage.paused {
		c.e.schedule.SetNow(&r.timer)
	}
}

// longOutage is how long an outage lasts before it is logged. A caller may wait forever, so the log is the only sign.
const longOutage = time.Second

// warnOfOutage logs that calls have been waiting for the server since then.
func (e *Engine) warnOfOutage(key string, since clock.Instant, err error) {
	if clock.Since(since) < longOutage {
		return
	}
	if missed, ok := e.outages.Allow(loglimit.KindOf(err)); ok {
		e.diagnoses.ExplainAsync(e.serverOf(key), err, func(explained error) {
			e.cfg.Logger.Warn("lockmw: calls wait for the lock server", "since", since.Time(), "error", explained, "suppressed", missed)
		})
	}
}

// explain adds the reason to the error of a call that ended without an answer.
func (e *Engine) explain(key string, err error) error {
	failure, ok := errors.AsType[*core.AcquireError](err)
	if !ok || !transport.IsUnexplained(failure.Err) {
		return err
	}
	explained := *failure // other calls may share the original
	explained.Err = e.diagnoses.Explain(e.serverOf(key), failure.Err)
	return &explained
}

// serverOf returns the client of the server that has the key.
func (e *Engine) serverOf(key string) any {
	ctx, cancel := context.WithTimeout(e.sender.Context(), transport.DiagnoseTimeout)
	defer cancel()
	keys := e.layout.KeySet(key)
	if node := e.sender.NodeFor(ctx, keys.Holder()); node != nil {
		return node
	}
	return e.rdb
}

// An identityWatcher detects that a server has lost its latest writes although no command has failed: it was restarted while this
// process had nothing to send, or Sentinels have replaced it on purpose. go-redis replaces broken connections silently, and
// leaves a subscription at a deposed master. Each start and each promotion changes the replication id, so the process reads the
// id regularly while it matters (rule 13 of docs/protocol.md). Without the right to run INFO it does not.
type identityWatcher struct {
	e           *Engine
	pause       time.Duration // between two reads
	replaceable bool          // another server, at another address, may replace it
	needed      atomic.Int64  // the instant until which reads are needed
	armed       atomic.Bool   // a read is scheduled or in flight
	off         atomic.Bool   // the server does not report its id
	timer       timers.Timer

	mu    sync.Mutex
	known map[*redis.Client]string // replication ids by node; the key is nil without a Cluster
}

const (
	// identityPause separates two reads of the id; replaceablePause does behind Sentinels, where grants may also be lost.
	identityPause    = time.Second
	replaceablePause = 250 * time.Millisecond
	// identityTimeout bounds one read.
	identityTimeout = time.Second
)

func (y *identityWatcher) init(e *Engine, t transport.Topology) {
	y.e = e
	y.timer.SetOwner(y)
	y.known = make(map[*redis.Client]string)
	y.replaceable = !t.Single && !t.HasSlots()
	y.off.Store(t.Sharded) // a proxy may answer with the id of any server
	if y.pause = identityPause; y.replaceable {
		y.pause = replaceablePause
	}
}

// ended records that an id of this process has ended on a server, which may lose that.
func (y *identityWatcher) ended(now clock.Instant) { y.need(now) }

// used records that a server has a grant or a ticket of this process. Behind Sentinels the process must detect that another
// server has taken its place; elsewhere a broken connection shows it.
func (y *identityWatcher) used(now clock.Instant) {
	if y.replaceable {
		y.need(now)
	}
}

func (y *identityWatcher) need(now clock.Instant) {
	y.needed.Store(int64(now.Add(releaseLost)))
	if y.armed.Load() || y.off.Load() || !y.armed.CompareAndSwap(false, true) {
		return
	}
	y.mu.Lock()
	if len(y.known) > 0 {
		now = now.Add(y.pause)
	}
	y.mu.Unlock()
	y.e.schedule.Set(&y.timer, now, 0)
}

// Due reads the ids in the background.
func (y *identityWatcher) Due() { y.e.schedule.Go(y.look) }

// isIdle reports whether the server's identity does not matter at present.
func (y *identityWatcher) isIdle(now clock.Instant) bool {
	return now >= clock.Instant(y.needed.Load())
}

// look reads the ids of all servers that matter, and schedules the next read if one is needed.
func (y *identityWatcher) look() {
	for _, node := range y.nodes() {
		y.ask(node)
	}
	now := clock.Now()
	if y.replaceable && y.e.active.Len() > 0 {
		y.needed.Store(int64(now.Add(releaseLost)))
	}
	if !y.isIdle(now) && !y.off.Load() {
		y.e.schedule.Set(&y.timer, now.Add(y.pause), 0)
		return
	}
	y.armed.Store(false)
}

// nodes returns the nodes of a Cluster at which an id has recently ended, or a single nil without a Cluster.
func (y *identityWatcher) nodes() (all []*redis.Client) {
	cluster := y.e.inboxes.Cluster
	if cluster == nil {
		return []*redis.Client{nil}
	}
	seen := make(map[*redis.Client]bool)
	for _, one := range y.e.endedLately() {
		keys := y.e.layout.KeySet(one.key)
		node, err := cluster.MasterForKey(y.e.sender.Context(), keys.Holder())
		if err == nil && !seen[node] {
			seen[node] = true
			all = append(all, node)
		}
	}
	return all
}

// ask reads the id of one server.
func (y *identityWatcher) ask(node *redis.Client) {
	e := y.e
	client := e.rdb
	if node != nil {
		client = node
	}
	ctx, cancel := context.WithTimeout(e.sender.Context(), identityTimeout)
	defer cancel()
	info, err := transport.ReadInfo(ctx, client, "replication")
	id := info["master_replid"]
	if e.sender.Context().Err() != nil {
		return
	}
	if err != nil && transport.IsTemporary(err) {
		e.sender.Note(err)
		return
	}
	if err != nil || id == "" {
		y.off.Store(true)
		return
	}
	y.mu.Lock()
	was := y.known[node]
	y.known[node] = id
	y.mu.Unlock()
	if was != "" && was != id {
		y.changed()
	}
}

// changed handles a server that has lost its latest writes.
func (y *identityWatcher) changed() {
	e := y.e
	e.recovery.plan()
	switch {
	case y.replaceable:
		e.inboxes.Resubscribe(e.inbox)
	case e.inboxes.Cluster != nil:
		e.inboxes.FollowSlots()
	}
}

// A round is everything that is due at about the same time. Package transport paces renewals, polls and peeks. The rest goes out
// in one pipeline per node, which does not wait for an earlier one (rule 13 of docs/protocol.md). Only the schedule's goroutine
// adds to a round.
type round struct {
	renewals []transport.Due
	beats    []*transport.Call
	polls    []*request
	confirms []*request
	peeks    []*request
	reports  []*transport.Call
	lost     []*hold

	mu       sync.Mutex
	underway map[*redis.Client]int // pipelines in flight by node; the key is nil without a Cluster
}

const (
	// maxReporting bounds the pipelines in flight to a node. They do not wait for one another, so they would pile up at a node
	// that does not answer.
	maxReporting = 16
	// maxBeating is how many more pipelines may be in flight if they carry beats, so that nothing delays a beat.
	maxBeating = 4
	// maxCalls bounds the calls of a pipeline. It is large because the server reads a pipeline in pieces of 16 KiB and serves
	// other clients in between.
	maxCalls = 16384
)

// endRound sends the round and notifies the callers of lost holds, without delaying the schedule.
func (e *Engine) endRound() {
	r := &e.round
	e.pacer.Add(r.renewals)
	e.sendRound(r.beats, maxReporting+maxBeating)
	e.sendRound(r.reports, maxReporting)
	e.polling.Add(append(polls(r.polls), e.peeks(r.confirms, confirmIt)...))
	e.peeking.Add(e.peeks(r.peeks, peekIt))
	if len(r.lost) > 0 {
		e.notifyLostAsync(r.lost)
	}
	r.renewals, r.beats, r.polls, r.confirms, r.peeks, r.reports, r.lost = nil, nil, nil, nil, nil, nil, nil
}

// sendRound runs calls in pipelines, each in its own goroutine, if fewer than most are in flight to the node.
func (e *Engine) sendRound(calls []*transport.Call, most int) {
	for node, batch := range e.sender.GroupByNode(calls) {
		for _, part := range transport.GroupByTimeout(batch, maxCalls) {
			e.sendPipeline(node, part, most)
		}
	}
}

func (e *Engine) sendPipeline(node *redis.Client, batch []*transport.Call, most int) {
	r := &e.round
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.underway[node] >= most {
		return // the next tries are already scheduled
	}
	if r.underway == nil {
		r.underway = make(map[*redis.Client]int)
	}
	r.underway[node]++
	e.schedule.Go(func() {
		e.sender.RunWithin(batch)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.underway[node]--; r.underway[node] == 0 {
			delete(r.underway, node)
		}
	})
}
