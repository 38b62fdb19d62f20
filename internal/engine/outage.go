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

// An outage is the time in which the server cannot do what it is asked for: it is away, starts, fails over or is busy, or
// a Cluster moves the slot. Callers with time to wait wait for its end (rule 14 of docs/protocol.md).
type outage struct {
	tries  int           // that have failed so far
	since  clock.Instant // when the first one had
	paused bool          // before the next try
}

// The pauses between tries grow from one to the other.
const (
	minTryPause = 20 * time.Millisecond
	maxTryPause = 500 * time.Millisecond
)

// tryPause returns the pause after a number of tries that have failed. It is up to a quarter shorter at random, so that
// those who met the same outage do not all come back at once.
func tryPause(tries int) time.Duration {
	pause := min(minTryPause<<min(tries-1, 10), maxTryPause)
	return pause - rand.N(pause/4+1)
}

// note notes one more try that has failed, and returns for how long to pause.
func (o *outage) note(now clock.Instant) time.Duration {
	if o.tries == 0 {
		o.since = now
	}
	o.tries++
	return tryPause(o.tries)
}

// waitOut lets the request wait for the server after a try that failed with err, and ends the waits of those who do not
// want to. It reports whether it waits.
func (r *request) waitOut(err error) bool {
	c, e := r.c, r.c.e
	pause := r.outage.note(clock.Now())
	c.failFast(err, clock.Since(r.outage.since) < quickMove)
	if c.waiters.Len == 0 || r.leader.HasEnded() {
		return false
	}
	r.lastErr, r.outage.paused = err, true
	e.schedule.SetAfter(&r.timer, pause, 0)
	return true
}

// quickMove is how long a call that only tries waits for a slot that moves.
const quickMove = 200 * time.Millisecond

// tryAgain sends a request once more under its id, as what became of it so far is not known.
func (r *request) tryAgain() {
	r.outage.paused = false
	r.send()
}

// failFast ends the waits of callers that do not wait for a server that answers with err. A slot that moves is no outage
// to them as long as that is quick, and a pool of connections that is exhausted is none before the server was looked at.
func (c *cohort) failFast(err error, quick bool) {
	moves, exhausted := transport.IsMoving(err), transport.IsPoolTimeout(err)
	c.failThose(transport.Failure(err), func(w *localq.Waiter) bool {
		return w.Req.Wait == 0 && !(moves && quick) || w.EndsWithOutage() && !moves && !exhausted
	})
}

// failThose ends the waits of those that are chosen. A caller whose context has ended is told so instead: a connection that heeds
// the context's deadline fails at the same time.
func (c *cohort) failThose(err error, chosen func(w *localq.Waiter) bool) {
	for w := range c.waiters.All() {
		if !w.HasEnded() && chosen(w) {
			c.removeWaiter(w)
			w.Finish(nil, &core.AcquireError{Err: err})
		}
	}
}

// findOutage looks, in the background, whether the pool of connections is exhausted because of an outage. Then it ends the waits
// of those who do not wait for its end.
func (e *Engine) findOutage(c *cohort, err error) {
	e.diagnoses.Tell(e.serverOf(c.key), transport.Failure(err), func(explained error) {
		if core.FaultOf(explained) != core.Outage {
			return
		}
		c.shard.mu.Lock()
		defer c.unlock()
		c.failThose(explained, (*localq.Waiter).EndsWithOutage)
		c.dropUnwanted()
	})
}

// hurry ends the pause of the cohort's request for a caller that does not wait for the server, but wants to know
// whether it is still away.
func (c *cohort) retryNow() {
	if r := c.request; r != nil && r.outage.paused {
		c.e.schedule.SetNow(&r.timer)
	}
}

// longOutage is after how long an outage is logged: a caller may wait for ever, and nobody would be told otherwise.
const longOutage = time.Second

// warnOfOutage logs that calls have been waiting for the server since then.
func (e *Engine) warnOfOutage(key string, since clock.Instant, err error) {
	if clock.Since(since) < longOutage {
		return
	}
	if missed, ok := e.outages.Allow(loglimit.KindOf(err)); ok {
		e.diagnoses.Tell(e.serverOf(key), err, func(explained error) {
			e.cfg.Logger.Warn("lockmw: calls wait for the lock server", "since", since.Time(), "error", explained, "suppressed", missed)
		})
	}
}

// explain adds to the error of a call for a key that ended without an answer why there is none.
func (e *Engine) explain(key string, err error) error {
	failure, ok := errors.AsType[*core.AcquireError](err)
	if !ok || !transport.IsUnexplained(failure.Err) {
		return err
	}
	explained := *failure // which other calls may have
	explained.Err = e.diagnoses.Explain(e.serverOf(key), failure.Err)
	return &explained
}

// serverOf returns the client of the server that has a key.
func (e *Engine) serverOf(key string) any {
	ctx, cancel := context.WithTimeout(e.sender.Context(), transport.DiagnoseTimeout)
	defer cancel()
	keys := e.layout.KeySet(key)
	if node := e.sender.NodeFor(ctx, keys.Holder()); node != nil {
		return node
	}
	return e.rdb
}

// An identity notices that a server has lost its latest writes, though no command has failed: it was restarted while this process
// had nothing to send, or Sentinels have put another one in its place on purpose. go-redis replaces broken connections in silence,
// and leaves a subscription at a master that was deposed. Each start and each promotion makes a new replication id, so the process
// asks for that from time to time while it matters (rule 13 of docs/protocol.md). Without the right to INFO it does not.
type identity struct {
	e      *Engine
	pause  time.Duration // between two looks
	roams  bool          // the server may be replaced by another one, at another address
	needed atomic.Int64  // an instant: it matters until then
	armed  atomic.Bool   // a look is planned, or under way
	off    atomic.Bool   // the server does not say
	timer  timers.Timer

	mu    sync.Mutex
	known map[*redis.Client]string // replication ids; of nil, if there is no Cluster
}

const (
	// identityPause is how much time is between two looks, and roamingPause behind Sentinels, where grants may be lost, too.
	identityPause = time.Second
	roamingPause  = 250 * time.Millisecond
	// identityTimeout bounds one look.
	identityTimeout = time.Second
)

func (y *identity) init(e *Engine, t transport.Topology) {
	y.e = e
	y.timer.Of(y)
	y.known = make(map[*redis.Client]string)
	y.roams = !t.Single && !t.Cluster
	if y.pause = identityPause; y.roams {
		y.pause = roamingPause
	}
}

// ended notes that something of this process has ended at a server, which may lose that.
func (y *identity) ended(now clock.Instant) { y.need(now) }

// used notes that a grant or a ticket of this process is at a server. If another one takes its place the process has to hear
// of that: elsewhere, a connection breaks.
func (y *identity) used(now clock.Instant) {
	if y.roams {
		y.need(now)
	}
}

func (y *identity) need(now clock.Instant) {
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

// Due looks, in the background.
func (y *identity) Due() { y.e.schedule.Go(y.look) }

// isIdle reports whether it does not matter for now which server is there.
func (y *identity) isIdle(now clock.Instant) bool { return now >= clock.Instant(y.needed.Load()) }

// look asks all servers that matter, and plans the next look if one is needed.
func (y *identity) look() {
	for _, node := range y.nodes() {
		y.ask(node)
	}
	now := clock.Now()
	if y.roams && y.e.active.Len() > 0 {
		y.needed.Store(int64(now.Add(releaseLost)))
	}
	if !y.isIdle(now) && !y.off.Load() {
		y.e.schedule.Set(&y.timer, now.Add(y.pause), 0)
		return
	}
	y.armed.Store(false)
}

// nodes returns the nodes of a Cluster at which something has ended lately; one that is nil if there is no Cluster.
func (y *identity) nodes() (all []*redis.Client) {
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

// ask asks one server.
func (y *identity) ask(node *redis.Client) {
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
	if err != nil && transport.IsPassing(err) {
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

// changed deals with a server that has lost its latest writes.
func (y *identity) changed() {
	e := y.e
	e.recovery.plan()
	switch {
	case y.roams:
		e.inboxes.SubscribeAnew(e.inbox)
	case e.inboxes.Cluster != nil:
		e.inboxes.Follow()
	}
}

// A round is what is due at about the same time. Renewals, polls and peeks go out as package transport paces them, and the rest in one
// pipeline per node, which waits for no earlier one (rule 13 of docs/protocol.md). Only the goroutine of the schedule adds to it.
type round struct {
	renewals []transport.Due
	beats    []*transport.Call
	polls    []*request
	confirms []*request
	peeks    []*request
	reports  []*transport.Call
	lost     []*hold

	mu       sync.Mutex
	underway map[*redis.Client]int // pipelines to a node; nil: to the servers, if they are no Cluster
}

const (
	// maxReporting bounds the pipelines under way to a node. No pipeline waits for another, so they would pile up
	// if it did not answer.
	maxReporting = 16
	// maxBeating is how many more pipelines may be under way if they carry beats: nothing holds up a beat.
	maxBeating = 4
	// maxCalls bounds the calls of a pipeline. It is large because the server reads a pipeline in pieces
	// of 16 KiB, and serves other clients in between.
	maxCalls = 16384
)

// endRound sends what the round has gathered, and tells those who have lost holds, without holding up the schedule.
func (e *Engine) endRound() {
	r := &e.round
	e.pacer.Add(r.renewals)
	e.sendRound(r.beats, maxReporting+maxBeating)
	e.sendRound(r.reports, maxReporting)
	e.polling.Add(append(polls(r.polls), e.peeks(r.confirms, confirmIt)...))
	e.peeking.Add(e.peeks(r.peeks, peekIt))
	if len(r.lost) > 0 {
		e.tellLost(r.lost)
	}
	r.renewals, r.beats, r.polls, r.confirms, r.peeks, r.reports, r.lost = nil, nil, nil, nil, nil, nil, nil
}

// sendRound runs calls in pipelines, each in a goroutine of its own, as long as fewer than most are under way to their node.
func (e *Engine) sendRound(calls []*transport.Call, most int) {
	for node, batch := range e.sender.ByNode(calls) {
		for _, part := range transport.ByTimeout(batch, maxCalls) {
			e.sendPipeline(node, part, most)
		}
	}
}

func (e *Engine) sendPipeline(node *redis.Client, batch []*transport.Call, most int) {
	r := &e.round
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.underway[node] >= most {
		return // the next tries are scheduled already
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
