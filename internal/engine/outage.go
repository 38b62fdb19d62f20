package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
	"github.com/lockmw/go/internal/loglimit"
	"github.com/lockmw/go/internal/script"
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
// an outage to end. It reports whether the request waits. If the time of the caller has ended for which the script was sent, that may
// be the whole reason: the request of the next caller finds out.
func (r *request) waitOut(err error) bool {
	c, e := r.c, r.c.e
	if r.leader.HasEnded() {
		return false
	}
	pause := r.outage.note(clock.Now())
	c.failFast(err, clock.Since(r.outage.since) < slotMoveWait)
	if c.waiters.Len == 0 {
		return false
	}
	r.lastErr, r.outage.paused = err, true
	e.schedule.SetAfter(&r.timer, pause, 0)
	return true
}

// slotMoveWait is how long a call that only tries waits for a slot that moves.
const slotMoveWait = 200 * time.Millisecond

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
			c.finish(w, nil, &core.AcquireError{Err: err})
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

// onServerReplaced handles a server that may have lost its latest writes.
func (e *Engine) onServerReplaced() {
	e.recovery.plan()
	switch {
	case e.topology.IsReplaceable():
		e.inboxes.Resubscribe(e.inbox)
	case e.inboxes.Cluster != nil:
		e.inboxes.FollowSlots()
	}
}

// A round is everything that is due at about the same time. Package transport paces renewals, polls and peeks. Beats and reports go
// out immediately (rule 13 of docs/protocol.md). Only the schedule's goroutine adds to a round.
type round struct {
	renewals  []transport.Due
	beats     []*transport.Call
	questions [pollIt + 1][]*request
	reports   []*transport.Call
	lost      []*hold
}

const (
	// maxReporting bounds the pipelines in flight to a node.
	maxReporting = 16
	// maxBeating is how many more pipelines may be in flight if they carry beats, so that nothing delays a beat.
	maxBeating = 4
)

// endRound sends the round and notifies the callers of lost holds, without delaying the schedule.
func (e *Engine) endRound() {
	r := &e.round
	e.pacer.Add(r.renewals)
	e.rounds.Send(r.beats, maxReporting+maxBeating) // what is left out is due again soon
	e.rounds.Send(r.reports, maxReporting)
	e.polling.Add(append(polls(r.questions[pollIt]), e.peeks(r.questions[confirmIt], confirmIt)...))
	e.peeking.Add(e.peeks(r.questions[peekIt], peekIt))
	if len(r.lost) > 0 {
		e.notifyLostAsync(r.lost)
	}
	*r = round{}
}

// tryTimeout is how long retryUntil waits for an answer before it tries again. A late answer does no harm.
const tryTimeout = time.Second

// A prepareCall prepares an execution of a script.
type prepareCall func(context.Context, *script.Set, func(*transport.Reply)) *transport.Call

// A readAnswer reads an answer, and reports whether to try again after an error.
type readAnswer func(*transport.Reply) (again bool, err error)

// neverEnds is for scripts that are retried until their context ends.
func neverEnds() error { return nil }

// retryUntil runs a script until read returns no error or says not to try again, until ctx ends, or until ended returns an error.
func (e *Engine) retryUntil(ctx context.Context, ended func() error, prepare prepareCall, read readAnswer) error {
	var failures outage
	var last error
	for {
		again, err := e.try(ctx, prepare, read)
		if err == nil || !again {
			return err
		}
		if last == nil || !errors.Is(err, core.ErrNoAnswer) {
			last = err
		}
		if err := e.pause(ctx, failures.note(clock.Now()), last); err != nil {
			return err
		}
		if err := ended(); err != nil {
			return err
		}
	}
}

// pause waits for the next try. It returns an error if there is none. If ctx has ended, that error wraps the last one.
func (e *Engine) pause(ctx context.Context, d time.Duration, last error) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-e.sender.Context().Done():
		return core.ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("%w (%w)", last, ctx.Err())
	}
}

// try runs a script once for retryUntil.
func (e *Engine) try(ctx context.Context, prepare prepareCall, read readAnswer) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	r, err := e.ask(ctx, prepare)
	if err != nil {
		return true, err
	}
	return read(r)
}

// mayRetry reports whether it may help to run a script again after this answer (rules 14 and 21 of docs/protocol.md).
func mayRetry(a *transport.Reply) bool { return transport.IsTemporary(a.Err) || a.ReplicaErr != nil }

// ask runs a script once.
func (e *Engine) ask(ctx context.Context, prepare prepareCall) (*transport.Reply, error) {
	answers := make(chan *transport.Reply, 1)
	e.sender.Start(prepare(ctx, e.scripts, func(r *transport.Reply) { answers <- r }))
	select {
	case r := <-answers:
		return r, nil
	case <-ctx.Done():
		return nil, core.ErrNoAnswer
	}
}

// The tokens of a counter only rise (rule 18 of docs/protocol.md). But a server may lose the counter, and the clock of the server
// that replaces it may be behind. A grant may then have a smaller token than this process has seen. In that case the process
// raises the counter and requests the lock again.

func (e *Engine) raise(ctx context.Context, raise script.Raise) error {
	a, err := e.ask(ctx, raise.Call)
	if err != nil {
		return err
	}
	behind, err := script.RaiseAnswer(a, raise.Token)
	if behind > 0 {
		return fmt.Errorf("%w: its clock is %v behind a fencing token", core.ErrUnavailable, behind.Round(time.Second))
	}
	if err == nil {
		e.slotOf(raise.Keys).noteToken(raise.Token)
	}
	return transport.Failure(err)
}

// noteToken records the last token of a grant. Grants of different keys may arrive in a different order than their tokens. Grants
// of one key do not: a later one never has an older token, however long its request has waited.
func (c *cohort) noteToken(token int64) {
	c.slot.noteToken(token)
	c.greatest = max(c.greatest, token)
}

// isStale reports whether the token of a grant is not above all tokens that were seen before the request was sent, and all tokens
// of the key since. Readers share a token, which may be older. Grants of permits may arrive in a different order than their
// tokens.
func (r *request) isStale(g script.Grant) bool {
	if r.c.kind != permit {
		r.seen = max(r.seen, r.c.greatest)
	}
	return r.leader.Req.Mode != core.Read && g.Token <= r.seen
}

// onStaleToken raises the counter. The next request gives up what was granted.
func (r *request) onStaleToken() {
	c := r.c
	c.detach(r)
	c.raising = true
	c.raises++
	raise := script.Raise{Keys: &c.keys, Token: r.seen}
	c.e.sender.Start(raise.Call(c.e.sender.Context(), c.e.scripts, r.onRaised))
}

// maxRaises bounds how often the counter is raised for one grant.
const maxRaises = 3

// onRaised handles the answer to raise.lua. If the counter was not raised, the next grant is stale again.
func (r *request) onRaised(a *transport.Reply) {
	c := r.c
	c.shard.mu.Lock()
	defer c.unlock()
	c.raising = false
	behind, err := script.RaiseAnswer(a, r.seen)
	switch {
	case behind > 0:
		c.failWaiters(&core.AcquireError{Err: fmt.Errorf(
			"%w: its clock is %v behind an earlier fencing token, and it has lost its token counter",
			core.ErrUnavailable, behind.Round(time.Second))})
	case err != nil && !transport.IsTemporary(err):
		c.failWaiters(&core.AcquireError{Err: transport.Failure(err)})
	case c.raises > maxRaises: // perhaps a proxy leads to a different server each time
		c.failWaiters(&core.AcquireError{Err: fmt.Errorf("%w: its fencing tokens do not rise although the counter was raised", core.ErrUnavailable)})
		c.raises = 0
	}
	c.sendRequest(&script.Predecessor{ID: r.id, Lease: r.lease()}) // cancels that predecessor if no caller waits
}
