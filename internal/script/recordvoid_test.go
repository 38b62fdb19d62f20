package script_test

import (
	"testing"

	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

func TestAnUnansweredBeginIsVoid(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		begins(d, "a", claimOf("r1"))
		for range 2 {
			d.CancelRecord("a", "r1")
			wantRecord(d, "cancelled", "none  0 0")
		}
		if got := d.Claim("a", claimOf("r1")); got.Outcome != script.Over {
			d.Errorf("a copy of the acquire: %+v", got)
		}
		wantRecord(d, "after the copy", "none  0 0")

		d.CancelRecord("b", "r2") // which overtakes the acquire
		if got := d.Claim("b", claimOf("r2")); got.Outcome != script.Over {
			d.Errorf("an acquire after its cancel: %+v", got)
		}
		wantRecord(d, "after an acquire that was overtaken", "none  0 0")

		token := hold(d, "c")
		wantBegins(d, "c", token, claimOf("r3"), "open r3 0 0")
		for range 2 {
			d.ReleaseRecord("c", endOf("r3", "void"))
			wantRecord(d, "released", "none  0 0")
		}
		if got := begins(d, "e", claimOf("r4")); got.Earlier != 0 {
			d.Errorf("the next run: %+v", got)
		}
	})
}

// The outcome of the first run is unknown, however often the second is made void.
func TestAVoidRunLeavesTheRunThatItHasReplaced(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		begins(d, "a", claimOver("r1"))
		lapse(d)
		begins(d, "b", claimOver("r2"))
		for range 3 {
			d.CancelRecord("b", "r2")
			wantRecord(d, "cancelled", "open r2-void 0 1 returned")
		}
		if d.EndRecord(keepOf("r2")) {
			d.Error("the void run recorded an answer")
		}
		refused := d.Claim("c", claimOf("r3"))
		if refused.Grant.Opened {
			d.Error("a call began that does not replace the first run")
		}
		wantBegins(d, "c", refused.Grant.Token, claimOf("r3"), "open r2-void 0 1 returned")
		wantBegins(d, "c", refused.Grant.Token, claimOver("r2"), "open r2 1 1") // the run's call has asked again
		wantBegins(d, "c", refused.Grant.Token, claimOver("r2"), "open r2 1 1")
		d.Release("c")
		if got := begins(d, "e", claimOver("r4")); got.Earlier != 2 {
			d.Errorf("the next run: %+v", got)
		}
	})
}

// A call that has lost its ticket asks again under another id, for the same run. The cancel of the first id must not end that.
func TestARunIsVoidOnlyUnderTheIDThatBeganIt(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		begins(d, "a", claimOf("r1"))
		lapse(d)
		begins(d, "b", claimOf("r1"))
		d.CancelRecord("a", "r1")
		wantRecord(d, "the first id was cancelled", "open r1 0 0")
		token := d.Token()
		wantBegins(d, "b", token, claimOf("r1"), "open r1 0 0")
		d.CancelRecord("b", "r1")
		wantRecord(d, "the second id was cancelled", "none  0 0")
	})
}

func TestARunThatHasReturnedIsNotVoid(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		begins(d, "a", claimOf("r1"))
		d.ReleaseRecord("a", endOf("r1", "leave"))
		d.CancelRecord("a", "r1")
		wantRecord(d, "cancelled after its end", "open r1 0 0 returned")
		if d.EndRecord(endOf("r1", "void")) {
			d.Error("a late void was confirmed")
		}
		wantRecord(d, "void after its end", "open r1 0 0 returned")
	})
}

// The lock of a run may be lost, or a copy of its acquire answered late. The cancel that follows must not hide that the run works.
func TestARunThatWorksIsNotVoid(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		token := begins(d, "a", claimOf("r1")).RecordToken
		if token != d.Record().Token {
			d.Errorf("the token of the record is %d, want %d", token, d.Record().Token)
		}
		d.CancelBegun("a", "r1", token)
		wantRecord(d, "cancelled while it works", "open r1 0 0")
		d.EndRecord(endOf("r1", "forget"))

		token = begins(d, "b", claimOf("r2")).RecordToken
		lapse(d)
		if got := begins(d, "b", claimOf("r2")); got.RecordToken != token || got.Token <= token {
			d.Errorf("a copy, while the record is open for the run: %+v", got)
		}
		lapse(d)
		d.EndRecord(endOf("r2", "forget"))
		begins(d, "b", claimOf("r2")) // a late copy
		d.CancelBegun("b", "r2", token)
		wantRecord(d, "a late copy has begun, and was cancelled", "none  0 0")
	})
}
