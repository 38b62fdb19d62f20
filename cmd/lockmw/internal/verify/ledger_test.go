package verify

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/judge"
)

const sec = time.Second

// a granted report has token n; it is about the key k.
func granted(call int, kind Kind, token int64, asked, at, deadline time.Duration) report {
	return report{Kind: kind, Report: judge.Report{
		Event: judge.Granted, Call: call, Key: "k", Token: token, Asked: asked, At: at, Deadline: deadline, Reads: kind == Read,
	}}
}

func about(event string, call int, at, deadline time.Duration) report {
	return report{Report: judge.Report{Event: event, Call: call, Key: "k", At: at, Deadline: deadline}}
}

// change changes a report.
func change(r report, f func(*report)) report {
	f(&r)
	return r
}

func TestReportsOfWorkersAreJudged(t *testing.T) {
	type reports []report
	refused := func(r report) report { return change(r, func(r *report) { r.Refused = true }) }
	late := func(r report) report {
		return change(r, func(r *report) { r.Late = 3 * sec; r.Limited, r.Lost = true, true })
	}
	inTime := func(r report) report {
		return change(r, func(r *report) { r.Late = sec; r.Limited, r.Lost = true, true })
	}
	queued := func(r report, at time.Duration) report { return change(r, func(r *report) { r.Queued = at }) }
	kind := func(r report, kind string) report { return change(r, func(r *report) { r.Type = kind }) }
	for name, test := range map[string]struct {
		reports [2]reports // of each worker
		want    Symptom    // "": none
	}{
		"one after the other": {[2]reports{
			{granted(1, Plain, 1, 0, 1*sec, 9*sec), about(judge.Ended, 1, 2*sec, 9*sec), about(judge.Done, 1, 3*sec, 9*sec)},
			{granted(1, Plain, 2, 0, 2*sec, 9*sec)},
		}, ""},
		"two holders": {[2]reports{{granted(1, Plain, 1, 0, 1*sec, 9*sec)}, {granted(1, Plain, 2, 0, 2*sec, 9*sec)}}, TwoHolders},
		"a renewed hold and another": {[2]reports{
			{granted(1, Plain, 1, 0, 1*sec, 2*sec), about(judge.Renewed, 1, 0, 5*sec)}, {granted(1, Plain, 2, 0, 3*sec, 9*sec)},
		}, TwoHolders},
		"two readers":                     {[2]reports{{granted(1, Read, 1, 0, 1*sec, 9*sec)}, {granted(1, Read, 1, 0, 2*sec, 9*sec)}}, ""},
		"a reader and a writer":           {[2]reports{{granted(1, Read, 1, 0, 1*sec, 9*sec)}, {granted(1, Write, 2, 0, 2*sec, 9*sec)}}, TwoHolders},
		"a downgraded writer and readers": {[2]reports{{granted(1, Write, 1, 0, 1*sec, 9*sec), about(judge.Shared, 1, 2*sec, 9*sec)}, {granted(1, Read, 1, 0, 2*sec, 9*sec)}}, ""},
		"a token that falls":              {[2]reports{{granted(1, Plain, 2, 0, 1*sec, 2*sec)}, {granted(1, Plain, 1, 0, 3*sec, 9*sec)}}, TokensFell},
		"a fair call that is overtaken": {[2]reports{
			{queued(granted(1, Fair, 2, 0, 5*sec, 6*sec), 1*sec)}, {granted(1, Fair, 1, 2*sec, 3*sec, 4*sec)},
		}, Overtaken},
		"… after its process stood still": {[2]reports{
			{change(queued(granted(1, Fair, 2, 0, 5*sec, 6*sec), 1*sec), func(r *report) { r.Stalls = []judge.Interval{{From: 6 * sec, To: 8 * sec}} })}, {granted(1, Fair, 1, 2*sec, 3*sec, 4*sec)},
		}, ""},
		"… after its process was disturbed": {[2]reports{
			{granted(1, Fair, 1, 2*sec, 3*sec, 4*sec)}, {queued(granted(1, Fair, 2, 0, 5*sec, 6*sec), 1*sec)},
		}, ""},
		"a plain call that is overtaken": {[2]reports{
			{queued(granted(1, Plain, 2, 0, 5*sec, 6*sec), 1*sec)}, {granted(1, Plain, 1, 2*sec, 3*sec, 4*sec)},
		}, ""},
		"a grant after the end of the wait":   {[2]reports{{late(granted(1, Plain, 1, 0, 1*sec, 9*sec))}}, Overdue},
		"a failure after the end of the wait": {[2]reports{{late(about(judge.Failed, 1, 1*sec, 0))}}, Overdue},
		"… a second after":                    {[2]reports{{inTime(about(judge.Failed, 1, 1*sec, 0))}}, ""},
		"a loss that is noticed late":         {[2]reports{{granted(1, Plain, 1, 0, 1*sec, 2*sec), late(about(judge.Ended, 1, 5*sec, 2*sec))}}, Unnoticed},
		"… and within a second":               {[2]reports{{granted(1, Plain, 1, 0, 1*sec, 2*sec), inTime(about(judge.Ended, 1, 3*sec, 2*sec))}}, ""},
		"a context that is alive too long":    {[2]reports{{granted(1, Plain, 1, 0, 1*sec, 2*sec), about(judge.Late, 1, 5*sec, 2*sec)}}, Unnoticed},
		"an early loss":                       {[2]reports{{about(early, 1, 1*sec, 2*sec)}}, Vanished},
		"an early loss after a restart":       {[2]reports{{about(early, 1, 101*sec, 102*sec)}}, LostWrites},
		"an undocumented error":               {[2]reports{{about(wrong, 1, 1*sec, 0)}}, Unexpected},
		"a refusal":                           {[2]reports{{refused(about(wrong, 1, 1*sec, 0))}}, Unexpected},
		"… after a restart":                   {[2]reports{{refused(about(wrong, 1, 101*sec, 0))}}, ""},
		"a lock that is taken again":          {[2]reports{{granted(1, Plain, 1, 0, 1*sec, 9*sec), about(judge.Ended, 1, 6*sec, 9*sec)}, {granted(1, Plain, 2, 5*sec, 5*sec, 9*sec)}}, TwoHolders},
		"… after the clock was set forward":   {[2]reports{{granted(1, Plain, 1, 0, 1*sec, 9*sec), about(judge.Ended, 1, 6*sec, 4*sec)}, {granted(1, Plain, 2, 5*sec, 5*sec, 9*sec)}}, ""},
		"a busy lock":                         {[2]reports{{kind(about(judge.Failed, 1, 1*sec, 0), timedOut)}}, ""},
		"a lock that stays busy":              {[2]reports{{kind(about(judge.Failed, 1, 60*sec, 0), timedOut)}}, NoEnd},
		"an unavailable server":               {[2]reports{{kind(about(judge.Failed, 1, 60*sec, 0), "lock_unavailable")}}, ""},
	} {
		server := newWatch(nil)
		server.changes = []time.Duration{100 * sec}
		k := newKeys("p")
		r := &run{server: server, keys: k, ledger: newLedger(server, k, 30*sec)}
		workers := [2]*member{{run: r}, {run: r}}
		workers[1].disturbed.Begin(0)
		workers[1].disturbed.End(2 * sec)
		for i, reports := range test.reports {
			for _, report := range reports {
				r.ledger.heard(workers[i], &report)
			}
		}
		r.ledger.settleAll()
		res := r.result(time.Now())
		switch {
		case test.want == "" && res.Broken():
			t.Errorf("%s: found %+v", name, res.Findings)
		case test.want != "" && (len(res.Findings) != 1 || res.Findings[0].Symptom != test.want):
			t.Errorf("%s: found %+v, want %q", name, res.Findings, test.want)
		}
		broken := 0
		for _, p := range res.Promises {
			broken += p.Broken
		}
		if got := broken > 0; got != res.Broken() {
			t.Errorf("%s: the table shows %d broken promises: %+v", name, broken, res.Promises)
		}
	}
}

func TestAKilledWorkerHoldsNothing(t *testing.T) {
	server := newWatch(nil)
	l := newLedger(server, newKeys("p"), sec)
	a, b := &member{}, &member{}
	first := granted(1, Plain, 1, 0, judge.MachineNow(), judge.MachineNow()+time.Hour)
	l.heard(a, &first)
	l.killed(a, time.Now())
	second := granted(1, Plain, 2, 0, judge.MachineNow()+time.Millisecond, judge.MachineNow()+time.Hour)
	l.heard(b, &second)
	if l.settleAll(); len(l.findings) > 0 || len(l.calls) != 1 {
		t.Errorf("found %v; %d calls are kept", l.findings, len(l.calls))
	}
}

func TestServersThatTakeTurnsAreNoFailOver(t *testing.T) {
	a, b := []node{{run: "a"}}, []node{{run: "b"}}
	w := newWatch(nil)
	for i, nodes := range [][]node{a, a, b} {
		w.compare(nodes, time.Duration(i)*sec)
	}
	if w.several() || w.restarts() != 1 || !w.changed(3*sec, 3*sec, sec) || w.changed(5*sec, 6*sec, sec) {
		t.Errorf("after a fail-over: %d changes, %t", w.restarts(), w.several())
	}
	for i, nodes := range [][]node{a, b, a} {
		w.compare(nodes, time.Duration(10+i)*sec)
	}
	if !w.several() || w.restarts() != 0 || w.changed(0, 20*sec, 0) {
		t.Errorf("servers that take turns: %d changes, %t", w.restarts(), w.several())
	}
}
