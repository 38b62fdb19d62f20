package locklog_test

import (
	"strings"
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
	for name, p := range map[string]string{
		"sampled": valid, "unsampled": valid[:54] + "0", "flags to come": valid[:53] + "ff",
	} {
		if got := traceOf(t, p); got != validTrace {
			t.Errorf("%s: holder.trace_id is %v, want %s", name, got, validTrace)
		}
	}
}

func TestHostileTraceParentsAreIgnored(t *testing.T) {
	for name, p := range map[string]string{
		"empty":           "",
		"garbage":         "garbage",
		"right length":    strings.Repeat("x", 55),
		"no trace":        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"no span":         "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
		"upper case":      strings.ToUpper(valid),
		"version":         "ff" + valid[2:],
		"dashes":          strings.ReplaceAll(valid, "-", "_"),
		"first dash":      valid[:35] + "_" + valid[36:],
		"last dash":       valid[:52] + "_" + valid[53:],
		"no digit inside": valid[:10] + "g" + valid[11:],
		"span":            valid[:40] + "\n" + valid[41:],
		"flags":           valid[:53] + "+1",
		"more":            valid + "-more",
		"line feed":       valid[:54] + "\n",
		"very long":       strings.Repeat(valid, 1000),
		"not UTF-8":       strings.Repeat("\xff", 55),
		"split character": valid[:53] + "é",
	} {
		if got := traceOf(t, p); got != nil {
			t.Errorf("%s: holder.trace_id is %v", name, got)
		}
	}
}
