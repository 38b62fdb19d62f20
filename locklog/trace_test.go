package locklog_test

import (
	"testing"

	"github.com/lockmw/go/locklog"
	"github.com/lockmw/go/lockmw"
)

const (
	valid      = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	validTrace = "0af7651916cd43dd8448eb211c80319c"
)

// traceOf returns the trace id that a line shows of a holder of whom nothing else is known.
func traceOf(t *testing.T, traceParent string) any {
	t.Helper()
	j := newJournal(t, locklog.WithSlowWait(0))
	s := newScript(j.observer)
	s.Contended(lockmw.Contention{Holders: []lockmw.Holder{{TraceParent: traceParent}}})
	s.Acquired(lockmw.Acquisition{})
	l := j.messages(slowWait)[0]
	l.want(t, line{
		"lock.holders": 1, "holder.owner": nil, "holder.process": nil, "holder.token": nil, "holder.since": nil,
	})
	return l["holder.trace_id"]
}

func TestTheTraceOfTheHolderIsNamed(t *testing.T) {
	for p, want := range map[string]any{
		valid: validTrace, valid[:54] + "0": validTrace, valid[:53] + "ff": validTrace, "": nil, "garbage": nil,
	} {
		if got := traceOf(t, p); got != want {
			t.Errorf("%q: holder.trace_id is %v, want %v", p, got, want)
		}
	}
}
