package script_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

const (
	onePrint, otherPrint = "f1", "f2" // of two requests
	recordTTL            = time.Hour
)

// claimOf is what a call asks for that does not replace a run without an outcome.
func claimOf(run string) core.RecordClaim {
	return core.RecordClaim{Run: run, Fingerprint: onePrint, MaxSilent: 3, TTL: recordTTL}
}

// claimOver is what a call asks for that runs the work again.
func claimOver(run string) core.RecordClaim {
	c := claimOf(run)
	c.Over = true
	return c
}

func endOf(run, outcome string) core.RecordEnd { return core.RecordEnd{Run: run, Outcome: outcome} }

func keepOf(run string) core.RecordEnd {
	return core.RecordEnd{Run: run, Outcome: "keep", TTL: recordTTL, Status: 201, Answer: []byte("answer of " + run)}
}

// lapse makes the lease of the hold expire.
func lapse(d *scripttest.Driver) { d.Redis.Del(d.Context(), d.Keys.Holder()) }

// wantRecord checks the record of the key, as "state run earlier silent", and "returned" if the run has.
func wantRecord(d *scripttest.Driver, when, want string) {
	d.Helper()
	if got := textOf(d.Record()); got != want {
		d.Errorf("%s: the record is %q, want %q", when, got, want)
	}
}

func textOf(r *core.Record) string {
	if r == nil {
		return ""
	}
	text := fmt.Sprint([...]string{"none", "open", "done"}[r.State], " ", r.Run, " ", r.Earlier, " ", r.Silent)
	if r.Returned {
		text += " returned"
	}
	return text
}

// begins takes the lock and opens the record, in one execution.
func begins(d *scripttest.Driver, id string, claim core.RecordClaim) script.Grant {
	d.Helper()
	got := d.Claim(id, claim)
	d.WantHeld(id, got)
	if !got.Grant.Opened {
		d.Errorf("%s did not open the record: %s", id, textOf(d.Record()))
	}
	return got.Grant
}

// wantBegins checks what record_begin.lua shows to the hold of an id.
func wantBegins(d *scripttest.Driver, id string, token int64, claim core.RecordClaim, want string) {
	d.Helper()
	rec, outcome := d.BeginRecord(id, token, claim)
	if outcome != script.Done || textOf(rec) != want {
		d.Errorf("begin of %s: %v, %q, want %q", id, outcome, textOf(rec), want)
	}
}

func TestOneExecutionTakesTheLockAndOpensTheRecord(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		for range 2 { // a repeated execution
			got := begins(d, "a", claimOf("r1"))
			if rec := d.Record(); rec.Token != got.Token || got.Earlier != 0 || time.Since(rec.Began).Abs() > scripttest.Soon {
				d.Errorf("the grant is %+v, the record %+v", got, rec)
			}
			wantRecord(d, "begun", "open r1 0 0")
		}
		if ttl := d.Redis.PTTL(d.Context(), d.Keys.Record()).Val(); ttl > recordTTL || ttl < recordTTL-scripttest.Soon {
			d.Errorf("the record expires in %v", ttl)
		}
	})
}

func TestAfterAWaitTheHolderOpensTheRecord(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Fair("a")
		d.WantQueued("while another has the lock", d.Claim("b", claimOf("r1")), 1, 1)
		wantRecord(d, "while it waits", "")
		if _, outcome := d.BeginRecord("b", 1, claimOf("r1")); outcome != script.NotHeld {
			d.Errorf("begin without the lock: %v", outcome)
		}
		d.Release("a")
		token := d.Token()
		for range 2 {
			wantBegins(d, "b", token, claimOf("r1"), "open r1 0 0")
		}
		d.Release("b")
		if _, outcome := d.BeginRecord("b", token, claimOf("r1")); outcome != script.NotHeld {
			d.Errorf("a copy after the release: %v", outcome)
		}
	})
}

func TestARecordDecidesWithoutALock(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		begins(d, "a", claimOf("r1"))
		other := claimOver("r2")
		other.Fingerprint = otherPrint
		if got := d.Claim("b", other); got.Outcome != script.Settled || got.Record.Fingerprint != onePrint {
			d.Errorf("another request, while the run works: %+v", got)
		}
		d.ReleaseRecord("a", keepOf("r1"))
		for _, claim := range []core.RecordClaim{claimOver("r2"), other} {
			got := d.Claim("b", claim)
			if got.Outcome != script.Settled || string(got.Record.Answer) != "answer of r1" || got.Record.Fingerprint != onePrint {
				d.Errorf("after the end: %+v", got)
			}
		}
		d.WantNothingLeftBut(d.Keys.Record())

		token := hold(d, "c") // it has waited, and finds the answer under the lock
		wantBegins(d, "c", token, claimOver("r3"), "done r1 0 0")
	})
}

func TestAnAnswerIsRecordedOnce(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		begins(d, "a", claimOf("r1"))
		if ok, released := d.ReleaseRecord("a", keepOf("r1")); !ok || released != script.Done {
			d.Errorf("the end: %v, %v", ok, released)
		}
		if ok, released := d.ReleaseRecord("a", keepOf("r1")); !ok || released != script.NotHeld {
			d.Errorf("repeated: %v, %v", ok, released)
		}
		if !d.EndRecord(keepOf("r1")) || d.EndRecord(keepOf("r2")) {
			d.Error("the run's end is not confirmed, or another's is")
		}
		second := keepOf("r1")
		second.Answer, second.TTL = []byte("another one"), 2*second.TTL
		before := d.Redis.PTTL(d.Context(), d.Keys.Record()).Val()
		if d.EndRecord(second) {
			d.Error("another answer of the run is confirmed")
		}
		if after := d.Redis.PTTL(d.Context(), d.Keys.Record()).Val(); after > before {
			d.Errorf("another answer has prolonged the record from %v to %v", before, after)
		}
		for _, outcome := range []string{"forget", "leave", "void"} {
			if d.EndRecord(endOf("r1", outcome)) {
				d.Errorf("%s of a run whose answer is recorded was confirmed", outcome)
			}
		}
		d.CancelRecord("a", "r1")
		rec := d.Record()
		if string(rec.Answer) != "answer of r1" || rec.Status != 201 || rec.State != core.RecordDone || rec.Ended.Before(rec.Began) {
			d.Errorf("the record is %+v", rec)
		}
	})
}

// A call repeats a command whose answer was lost.
func TestAForgottenRunCanBeForgottenAgain(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		begins(d, "a", claimOf("r1"))
		for range 2 {
			if !d.EndRecord(endOf("r1", "forget")) {
				d.Error("not confirmed")
			}
		}
		if d.EndRecord(endOf("r2", "forget")) || d.EndRecord(keepOf("r1")) || d.EndRecord(endOf("r1", "leave")) {
			d.Error("another end is confirmed")
		}
		d.Release("a")
		begins(d, "b", claimOf("r2"))
		if d.EndRecord(endOf("r1", "forget")) {
			d.Error("the end of an earlier run is confirmed")
		}
	})
}

func TestRunsWithoutAnOutcomeAreCounted(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		begins(d, "a", claimOver("r1"))
		if ok, released := d.ReleaseRecord("a", endOf("r1", "leave")); !ok || released != script.Done {
			d.Errorf("leave: %v, %v", ok, released)
		}
		wantRecord(d, "a run of unknown outcome", "open r1 0 0 returned")
		refused := d.Claim("b", claimOf("r2"))
		if refused.Grant.Opened {
			d.Error("a call that does not run the work again began")
		}
		wantBegins(d, "b", refused.Grant.Token, claimOf("r2"), "open r1 0 0 returned")
		d.Release("b")
		for i, run := range []string{"r2", "r3", "r4"} {
			begins(d, fmt.Sprint("c", i), claimOver(run))
			wantRecord(d, run, fmt.Sprint("open ", run, " ", i+1, " ", i))
			lapse(d)
		}
		last := d.Claim("e", claimOver("r5"))
		if last.Grant.Opened {
			d.Error("it began after three runs that never returned")
		}
		wantBegins(d, "e", last.Grant.Token, claimOver("r5"), "open r4 3 2")
	})
}

func TestARefusedCallDoesNotProlongTheRecord(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		begins(d, "a", claimOf("r1"))
		lapse(d)
		later(recordTTL / 2)
		refused := d.Claim("b", claimOf("r2"))
		d.BeginRecord("b", refused.Grant.Token, claimOf("r2"))
		other := claimOver("r2")
		other.Fingerprint = otherPrint
		d.Claim("c", other)
		d.EndRecord(endOf("r1", "leave"))
		if left := d.Redis.PTTL(d.Context(), d.Keys.Record()).Val(); left != recordTTL/2 {
			d.Errorf("the record expires in %v", left)
		}
		d.EndRecord(keepOf("r1"))
		if left := d.Redis.PTTL(d.Context(), d.Keys.Record()).Val(); left != recordTTL {
			d.Errorf("with its answer it expires in %v", left)
		}
		later(recordTTL)
		wantRecord(d, "after its time", "")
		if d.EndRecord(keepOf("r1")) || d.RecordText() != "" {
			d.Error("a record that has expired was written")
		}
	})
}

func TestATextThatNoScriptHasWrittenIsNoRecord(t *testing.T) {
	const open = "open r1 7 f1 2 1 0 1700000000000000 a"
	for _, text := range []string{
		"open", "theirs", " ", "-", open + "x ", "Open" + open[4:], "closed" + open[4:], "done" + open[4:],
		"done" + open[4:] + " 1700000000000000", "done" + open[4:] + " now 200 answer", "done" + open[4:] + " 1700000000000000 ok answer",
		"open r1 x f1 2 1 0 1700000000000000 a", "open r1 7 f1 2 1 0 then a", "open r1 7 f1 2 1 0 1700000000000000", "open r1  7 f1 2 1 0 1 a",
	} {
		if rec, ok := script.ParseRecord(text); ok != (text == open+"x ") || !ok && textOf(rec) != "none  0 0" {
			t.Errorf("%q: %v, %+v", text, ok, rec)
		}
	}
	if rec, ok := script.ParseRecord(open); !ok || textOf(rec) != "open r1 2 1" || rec.Token != 7 || rec.ID != "a" || rec.Began.UnixMicro() != 17e14 {
		t.Errorf("%+v, %v", rec, ok)
	}
	rec, ok := script.ParseRecord("done" + open[4:] + " 1700000000000001 201 an  answer\n\x00")
	if !ok || rec.Status != 201 || string(rec.Answer) != "an  answer\n\x00" || rec.Ended.Sub(rec.Began) != time.Microsecond {
		t.Errorf("%+v, %v", rec, ok)
	}
}
