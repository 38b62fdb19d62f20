package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/list"
	"github.com/lockmw/go/internal/localq"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/transport"
)

// A hold is one caller's turn with a lease, or its share in it. It implements core.Hold.
type hold struct {
	localq.Hold
	lease *lease
	end   *recordEnd   // nil: no run ends with the hold
	limit atomic.Int64 // a clock.Instant: the end of the maximum hold or the fixed lease; 0: none

	list.Links[*hold] // among the holds of the lease
}

// limitTo makes the hold end at t, unless it ends earlier.
func (h *hold) limitTo(t clock.Instant) {
	if limit := clock.Instant(h.limit.Load()); limit == 0 || t < limit {
		h.limit.Store(int64(t))
	}
}

// gone is Ended with the shard unlocked.
func (h *hold) gone() error {
	c := h.lease.c
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	return h.Ended()
}

// deadline returns when the hold ends unless its lease is renewed.
func (h *hold) deadline() clock.Instant {
	expires := h.lease.expiry()
	if limit := clock.Instant(h.limit.Load()); limit != 0 {
		return min(limit, expires)
	}
	return expires
}

// keepsPlace reports whether the caller keeps a place in the queue, which ends with the hold.
func (h *hold) keepsPlace() bool { return h.Req.KeepPlace > 0 && !h.Abandoned }

// Deadline implements core.Hold.
func (h *hold) Deadline() clock.Instant { return h.deadline() }

// Expired implements core.Hold.
func (h *hold) Expired() bool { return clock.Now() >= h.deadline() }

// KeepTaken implements core.Hold.
func (h *hold) KeepTaken(d time.Duration) {
	c := h.lease.c
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	h.Keep(d)
}

// Extend implements core.Hold.
func (h *hold) Extend(ctx context.Context, duration time.Duration) error {
	l, c := h.lease, h.lease.c
	if err := c.e.cfg.checkTaken("an extension", duration); err != nil {
		return err
	}
	c.shard.mu.Lock()
	err := h.refuseShorter(duration)
	if c.isShared() {
		duration = min(duration, l.duration) // the other readers need no more
	}
	c.shard.mu.Unlock()
	if err != nil {
		return err
	}
	n := l.renewal(duration)
	return c.e.retryUntil(ctx, h.gone, n.Call, func(a *transport.Reply) (again bool, err error) {
		return mayRetry(a), h.whileHeld(func() ([]*hold, error) { return h.onExtended(a, duration) })
	})
}

// whileHeld calls f with the shard locked, unless the hold has ended, and then notifies the callers whose holds f has ended as
// lost.
func (h *hold) whileHeld(f func() (lost []*hold, err error)) error {
	c := h.lease.c
	c.shard.mu.Lock()
	err := h.Ended()
	var lost []*hold
	if err == nil {
		lost, err = f()
	}
	c.unlock()
	notifyLost(lost)
	return err
}

// refuseShorter returns an error if the hold has a longer lease. A lease is never shortened (rule 13 of docs/protocol.md): a late
// copy of the command would shorten a lease that was renewed in the meantime.
func (h *hold) refuseShorter(duration time.Duration) error {
	if h.Over {
		return nil // the caller detects that
	}
	has := h.lease.duration
	if h.Req.Fixed {
		has = clock.Until(h.Since.Add(h.lease.duration)) // until it is confirmed
		if h.lease.confirmed {
			has = clock.Until(h.lease.expiry())
		}
	}
	return core.RefuseShorter(duration, has)
}

// onExtended handles the answer to renew.lua.
func (h *hold) onExtended(a *transport.Reply, duration time.Duration) (lost []*hold, err error) {
	l, c := h.lease, h.lease.c
	err = l.noteRenewal(a, duration)
	if errors.Is(err, errNotHeldByID) {
		cause := l.gone()
		return l.lose(cause), cause
	}
	if err != nil {
		return nil, transport.Failure(err)
	}
	if !c.isShared() {
		l.duration = duration // the other readers do not need that
	}
	if h.Req.Fixed {
		h.limit.Store(0)
		h.limitTo(a.Sent.Add(duration - c.e.margin(duration)))
		if h.Req.MaxHold > 0 {
			h.limitTo(h.MaxEnd())
		}
		l.reschedule()
	}
	return nil, nil
}

// Downgrade implements core.Hold.
func (h *hold) Downgrade(ctx context.Context) error {
	l, c := h.lease, h.lease.c
	c.shard.mu.Lock()
	if err := h.Ended(); err != nil {
		c.shard.mu.Unlock()
		return err
	}
	l.mode = core.Read // from here on it may admit readers
	if l.grantBatch != nil {
		l.grantBatch.removeServed() // otherwise readers would wait for tickets that were served
	}
	c.shard.mu.Unlock()
	d := script.Downgrade{Keys: &c.keys, ID: l.id}
	return c.e.retryUntil(ctx, h.gone, d.Call, func(a *transport.Reply) (again bool, err error) {
		return mayRetry(a), h.whileHeld(func() ([]*hold, error) {
			outcome, err := script.DowngradeAnswer(a)
			if err == nil && outcome == script.NotHeld {
				return l.lose(errDeleted), errDeleted
			}
			if outcome == script.More {
				c.e.pollForRest(c.keys, false)
			}
			return nil, transport.Failure(err)
		})
	})
}

var _ core.TickHold = (*hold)(nil)

// BeginTick implements core.TickHold.
func (h *hold) BeginTick(ctx context.Context, t core.Tick) (core.TickAnswer, time.Time, error) {
	l, c := h.lease, h.lease.c
	var a script.Began
	b := script.Begin{Keys: &c.keys, ID: l.id, Token: h.Token(), Tick: t}
	err := c.e.retryUntil(ctx, neverEnds, b.Call, func(r *transport.Reply) (again bool, err error) {
		a, err = script.BeginAnswer(r)
		if err == nil && a.Outcome == script.Done && a.Answer == core.TickBegun {
			err = r.ReplicaErr // other answers do not depend on what this execution has written
		}
		return !transport.IsFinal(err), transport.Failure(err)
	})
	if err == nil && a.Outcome == script.NotHeld {
		err = h.whileHeld(func() ([]*hold, error) { return l.lose(errDeleted), errDeleted })
	}
	return a.Answer, a.Now, err
}

// MarkTick implements core.TickHold.
func (h *hold) MarkTick(ctx context.Context, t core.Tick) (again bool, err error) {
	c := h.lease.c
	m := script.Mark{Keys: &c.keys, Token: h.Token(), Tick: t}
	err = c.e.retryUntil(ctx, neverEnds, m.Call, func(r *transport.Reply) (tryAgain bool, err error) {
		again, err = script.MarkAnswer(r)
		err = cmp.Or(err, r.ReplicaErr)
		return !transport.IsFinal(err), transport.Failure(err)
	})
	return again, err
}

// A request with a Vote is for a lock over several independent nodes (rule 24 of docs/protocol.md). It is a cohort of its own,
// and its hold is a core.VoteHold.

var _ core.VoteHold = (*hold)(nil)

// Raise implements core.VoteHold.
func (h *hold) Raise(ctx context.Context, last, token int64) error {
	c := h.lease.c
	return c.e.raise(ctx, script.Raise{Keys: &c.keys, Token: last, Always: true, Hold: h.lease.id, Shown: token})
}

// LastToken implements core.VoteHold.
func (h *hold) LastToken() int64 { return h.lease.tokens.Last() }

// IsContended implements core.VoteHold.
func (h *hold) IsContended() bool {
	c := h.lease.c
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	return h.lease.contended
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
