package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
)

// claims returns a requester whose hold opens the record of the key.
func (b *bubble) claims(run string) *requester {
	a := b.requester(core.Fair)
	a.Record = &core.RecordClaim{Run: run, Fingerprint: "f", MaxSilent: 3, TTL: time.Hour}
	return a
}

// wantRecord checks whether the record is open for a run; "" if it is not open.
func (b *bubble) wantRecord(when, run string) {
	b.Helper()
	synctest.Wait()
	got := ""
	if rec := b.driver.Record(); rec != nil && rec.State == core.RecordOpen {
		got = rec.Run
	}
	if got != run {
		b.Errorf("%s: the record is open for %q, want %q", when, got, run)
	}
}

// begins starts the run of a hold whose grant has opened the record.
func (b *bubble) begins(h *hold) {
	b.Helper()
	if _, ok := h.Opened(); !ok {
		b.Fatal("the record was not opened")
	}
}

// A caller that leaves while its grant arrives runs nothing.
func TestARunOfAHoldThatIsGivenBackIsVoid(t *testing.T) {
	inBubble(t, func(b *bubble) {
		h := b.claims("r1").acquire(b.T, b.e)
		b.wantRecord("granted", "r1")
		h.lease.c.GiveBack(h)
		b.wantRecord("given back", "")
		b.wantFree()

		h = b.claims("r2").acquire(b.T, b.e)
		b.release(h)
		b.wantRecord("released without a run", "")
	})
}

// Wherever a begin is lost, or its answer, no later call may find a run that never worked.
func TestABeginWithoutAnAnswerIsVoid(t *testing.T) {
	for how, end := range map[string]func(b *bubble, h *hold){
		"released": func(b *bubble, h *hold) { _, _ = h.Release(time.Second) },
		"cancelled": func(b *bubble, h *hold) {
			b.s.Mini.SetError("ERR no")
			_, _ = h.Release(time.Second)
			b.s.Mini.SetError("")
		},
		"lost": func(b *bubble, h *hold) {
			b.Helper()
			if err := h.whileHeld(func() ([]*hold, error) { return h.lease.lose(core.ErrLost), nil }); err != nil {
				b.Error(err)
			}
			_, _ = h.Release(time.Second)
		},
	} {
		t.Run(how, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.warmWith("record_acquire", "record_begin", "record_cancel", "record_release")
				b.driver.Fair("held")
				c := b.call(b.e, b.claims("r1"))
				b.driver.Release("held")
				h := b.wantGranted("after a wait", c)
				lost := b.wire.LoseReply(b.e.scripts.All()["record_begin"].SHA)
				ctx, cancel := context.WithTimeout(b.Context(), 10*time.Millisecond)
				defer cancel()
				if rec, err := h.BeginRecord(ctx, h.Req.Record); err == nil {
					b.Errorf("BeginRecord: %+v", rec)
				}
				<-lost.Caught()
				b.wantRecord("begun", "r1")
				end(b, h)
				time.Sleep(10 * time.Second)
				b.wantRecord("at the end", "")
				b.wantFree()
			})
		})
	}
}

// A cancel that follows the loss of the lock, or a late answer, must not hide that a run works.
func TestARunThatWorksIsNotMadeVoid(t *testing.T) {
	inBubble(t, func(b *bubble) {
		held := b.wire.HoldReply(b.e.scripts.All()["record_acquire"].SHA)
		b.warmWith("record_acquire", "record_cancel")
		c := b.call(b.e, b.claims("r1"))
		<-held.Caught()
		r := b.e.ids.requests()[0]
		held.Deliver()
		h := b.wantGranted("the call", c)
		b.begins(h)
		for _, cancel := range []func(){func() { h.lease.lose(core.ErrLost) }, func() { r.cancelAgain(nil) }} {
			r.c.shard.mu.Lock()
			cancel()
			r.c.unlock()
			time.Sleep(time.Second)
			b.wantRecord("after a cancel", "r1")
		}
		h.EndWith(&core.RecordEnd{Run: "r1", Outcome: "keep", TTL: time.Hour})
		_, _ = h.Release(time.Second)
		if ok, err := h.Recorded(); !ok || err != nil {
			b.Errorf("its answer was not recorded: %v", err)
		}
		b.wantFree()
	})
}

// The call of r1 has given up, but its begin has arrived. Before the cancel arrives, the next call finds the hold of an id that its
// process no longer knows.
func TestAHoldWhoseCancelIsOnItsWayIsNotDisownedWithoutItsRun(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warmWith("record_acquire", "record_begin", "record_cancel", "disown")
		scripts := b.e.scripts.All()
		answer := b.wire.HoldReply(scripts["record_acquire"].SHA)
		first := b.call(b.e, b.claims("r1"))
		<-answer.Caught()
		cancel := b.wire.Withhold(scripts["record_cancel"].SHA)
		first.stop()
		<-cancel.Caught()
		b.wantRecord("given up", "r1")
		a := b.claims("r2")
		a.Record.MaxSilent = 0 // an open record is of a run with an unknown outcome
		next := b.call(b.e, a)
		b.wantWaiting("the next call", next)
		answer.Deliver()
		cancel.Break()
		<-next.done
		rec, err := next.grant.BeginRecord(b.Context(), a.Record)
		if err != nil || rec.Run != "r2" {
			b.Errorf("its run finds %+v, %v", rec, err)
		}
		b.release(next.grant)
		b.wantFree()
	})
}
