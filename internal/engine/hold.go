package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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

// Deadline implements core.Hold.
func (h *hold) Deadline() clock.Instant {
	expires := h.lease.expiry()
	if limit := clock.Instant(h.limit.Load()); limit != 0 {
		return min(limit, expires)
	}
	return expires
}

// keepsPlace reports whether the caller keeps a place in the queue, which ends with the hold.
func (h *hold) keepsPlace() bool { return h.Req.KeepPlace > 0 && !h.Abandoned }

// Expired implements core.Hold.
func (h *hold) Expired() bool { return clock.Now() >= h.Deadline() }

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
		h.limitTo(a.Sent.Add(duration - c.e.cfg.margin(duration)))
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
			outcome, err := script.EndedAnswer(a)
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

// A request may have a Record, which says whether the work of its key was done (rule 28 of docs/protocol.md). Its id is used for
// one hold only, so that a late copy of a command is recognized.

var (
	_ core.RecordLocks = (*Engine)(nil)
	_ core.RecordHold  = (*hold)(nil)
)

// A recordEnd is how a hold's run ends with its release.
type recordEnd struct {
	*core.RecordEnd
	release *release // that carries it; nil: none
	ok      bool     // the record was the run's; without release
	err     error    // without release
}

// recordVoid is the outcome of a run that has not begun to work.
const recordVoid = "void"

// voids are the ids whose cancels make a run void and are on their way. Nothing else ends these ids: the next call would find a
// free lock, and a run that nobody knows.
type voids struct {
	mu  sync.Mutex
	ids map[lockKey][]uint64 // an id has a place for each of its cancels
}

func (v *voids) begin(k lockKey, id uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ids == nil {
		v.ids = make(map[lockKey][]uint64)
	}
	v.ids[k] = append(v.ids[k], id)
}

func (v *voids) end(k lockKey, id uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	i := slices.Index(v.ids[k], id)
	if v.ids[k] = slices.Delete(v.ids[k], i, i+1); len(v.ids[k]) == 0 {
		delete(v.ids, k)
	}
}

// of adds the ids of a key to a list.
func (v *voids) of(k lockKey, list []uint64) []uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append(list, v.ids[k]...)
}

// settle ends a request for which the record of its key has decided what the call gets.
func (r *request) settle(rec *core.Record) {
	c := r.c
	r.refused()
	r.cancelPredecessor() // which this execution has left alone
	c.failWaiters(&core.AcquireError{Err: &core.SettledError{Record: rec}})
	c.sendRequest(nil)
}

// Opened implements core.RecordHold.
func (h *hold) Opened() (earlier int, ok bool) {
	run := h.lease.run
	if run == nil || !run.opened || h.begin(run.token) != nil {
		return 0, false
	}
	return run.earlier, true
}

// begin notes that the hold's run begins to work, since the record has that token. From then on no command makes the run void.
func (h *hold) begin(token int64) error {
	return h.whileHeld(func() ([]*hold, error) { h.lease.run.begun = token; return nil, nil })
}

// BeginRecord implements core.RecordHold.
func (h *hold) BeginRecord(ctx context.Context, claim *core.RecordClaim) (rec *core.Record, err error) {
	l, c := h.lease, h.lease.c
	var outcome script.Outcome
	b := script.RecordBegin{Keys: &c.keys, ID: l.id, Token: h.Token(), Claim: claim}
	err = c.e.retryUntil(ctx, h.gone, b.Call, func(r *transport.Reply) (again bool, err error) {
		rec, outcome, err = script.RecordBeginAnswer(r)
		if err == nil && outcome == script.Done && rec.Run == claim.Run {
			err = r.ReplicaErr // other answers do not depend on what this execution has written
		}
		return !transport.IsFinal(err), transport.Failure(err)
	})
	switch {
	case err != nil:
		return nil, err
	case outcome == script.NotHeld:
		return nil, h.whileHeld(func() ([]*hold, error) { return l.lose(errDeleted), errDeleted })
	case outcome == script.Over:
		return nil, fmt.Errorf("%w: a later run has begun", core.ErrLost)
	}
	if rec.State == core.RecordOpen && rec.Run == claim.Run {
		if err := h.begin(rec.Token); err != nil {
			return nil, err
		}
	}
	return rec, nil
}

// EndWith implements core.RecordHold.
func (h *hold) EndWith(end *core.RecordEnd) { h.end = &recordEnd{RecordEnd: end} }

// Recorded implements core.RecordHold.
func (h *hold) Recorded() (ok bool, err error) {
	r := h.end.release
	if r == nil {
		return h.end.ok, h.end.err
	}
	select {
	case <-r.over:
		return r.recorded, r.recordErr
	default:
		return false, fmt.Errorf("%w: the end of the run was not confirmed", core.ErrUnavailable)
	}
}

// endAlone ends the run of a hold whose lock has ended before.
func (h *hold) endAlone(patience time.Duration) {
	ctx, cancel := context.WithTimeout(h.lease.c.e.sender.Context(), patience)
	defer cancel()
	h.end.ok, h.end.err = h.lease.c.e.EndRecord(ctx, h.Req.Key, h.end.RecordEnd)
}

// EndRecord implements core.RecordLocks.
func (e *Engine) EndRecord(ctx context.Context, key string, end *core.RecordEnd) (ok bool, err error) {
	keys := e.layout.KeySet(key)
	run := script.RecordEnd{Keys: &keys, End: end}
	err = e.retryUntil(ctx, neverEnds, run.Call, func(r *transport.Reply) (again bool, err error) {
		ok, err = script.RecordEndAnswer(r)
		err = cmp.Or(err, r.ReplicaErr)
		return !transport.IsFinal(err), transport.Failure(err)
	})
	return ok, err
}

// readRecord reads whether a release has ended the run of its hold.
func (r *release) readRecord(reply *transport.Reply) {
	if r.end == nil {
		return
	}
	r.recorded, r.recordErr = script.RecordEndAnswer(reply)
	r.recordErr = transport.Failure(cmp.Or(r.recordErr, reply.ReplicaErr))
}
