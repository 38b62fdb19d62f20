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
