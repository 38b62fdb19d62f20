package verify

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/transport"
	"github.com/lockmw/go/lockmw"
)

// An answer that no script gives is a finding; a server that does not answer only ends the run.
func TestAnErrorIsAFindingOrEndsTheRun(t *testing.T) {
	for name, tt := range map[string]struct {
		err     error
		finds   Symptom // "": the run ends
		mayFail bool    // a call of a disturbed process may return it
	}{
		"no answer":           {core.ErrNoAnswer, "", true},
		"a malformed answer":  {transport.Failure(transport.ErrMalformed), Unexpected, false},
		"a busy lock":         {lockmw.ErrBusy, Unexpected, true},
		"a lost lock":         {lockmw.ErrLost, Vanished, true},
		"an undocumented one": {errors.New("undocumented"), Unexpected, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := &run{ledger: newLedger(newWatch(nil), newKeys("p"), 0)}
			if err := r.accept(t.Context(), tt.err); errors.Is(err, tt.err) != (tt.finds == "") {
				t.Errorf("the run ends with %v", err)
			}
			if got := r.ledger.findings; (len(got) == 1 && got[0].symptom == tt.finds) != (tt.finds != "") {
				t.Errorf("the findings are %v, want %q", got, tt.finds)
			}
			c := &call{w: &worker{ctx: t.Context()}}
			if got := c.mayFail(tt.err); got != tt.mayFail {
				t.Errorf("mayFail = %t", got)
			}
		})
	}
}

// A fail-over that nobody has triggered, or that cannot be noticed, is none that went well.
func TestARunWithoutTheFailoverThatWasAskedForIsIncomplete(t *testing.T) {
	for name, tt := range map[string]struct {
		failover    func(context.Context) error
		seen        int
		interrupted bool
		want        string
	}{
		"nobody asked":  {nil, 0, false, "holds"},
		"it happened":   {func(context.Context) error { return nil }, 1, false, "holds"},
		"it is missing": {func(context.Context) error { return nil }, 0, false, "incomplete"},
		"interrupted":   {func(context.Context) error { return nil }, 0, true, "interrupted"},
	} {
		r := &run{o: Options{Failover: tt.failover}, server: newWatch(nil), ledger: newLedger(newWatch(nil), newKeys("p"), 0)}
		r.ledger.seen.Failovers = tt.seen
		got := r.result(time.Now())
		got.Interrupted = tt.interrupted
		if verdict, _, _ := strings.Cut(got.Verdict(), ":"); verdict != tt.want {
			t.Errorf("%s: %s", name, got.Verdict())
		}
	}
}

// A fault may last until the end of a run, longer than half of it.
func TestTheFailoverComesEvenIfTheTimeHasPassed(t *testing.T) {
	asked := errors.New("asked")
	r := &run{o: Options{Failover: func(context.Context) error { return asked }}, server: newWatch(nil), ledger: newLedger(newWatch(nil), newKeys("p"), 0)}
	if err := r.strikeAll(t.Context(), time.Now().Add(-time.Minute)); err != asked {
		t.Errorf("the run ends with %v", err)
	}
}
