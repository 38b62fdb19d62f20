package engine

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/transport"
)

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

// settle ends a request for which the record of its key has decided what the call gets.
func (r *request) settle(rec *core.Record) {
	c := r.c
	r.refused()
	if r.predecessor != nil { // which this execution has left alone
		c.e.cancelID(c.keys, c.predecessorTarget(r.predecessor))
	}
	c.failWaiters(&core.AcquireError{Err: &core.SettledError{Record: rec}})
	c.sendRequest(nil)
}

// Opened implements core.RecordHold.
func (h *hold) Opened() (earlier int, ok bool) {
	l := h.lease
	if !l.opened || h.begin(l.recordToken) != nil {
		return 0, false
	}
	return l.earlier, true
}

// begin notes that the hold's run begins to work, since the record has that token. From then on no command makes the run void.
func (h *hold) begin(token int64) error {
	return h.whileHeld(func() ([]*hold, error) { h.lease.begun = token; return nil, nil })
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
	r.recorded, r.recordErr = script.ReleaseRecordAnswer(reply)
	r.recordErr = transport.Failure(cmp.Or(r.recordErr, reply.ReplicaErr))
}
