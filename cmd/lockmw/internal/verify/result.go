package verify

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Seen counts what happened in a run.
type Seen struct {
	Holds     int `json:"holds"`
	Exclusive int `json:"exclusive_holds"`
	ReadWrite int `json:"read_write_holds"`
	Permits   int `json:"permits"`
	Waited    int `json:"waited"`  // holds after a wait in the queue of the server
	Ordered   int `json:"ordered"` // calls whose order was judged
	Limited   int `json:"limited_waits"`
	Renewals  int `json:"renewals"`
	Lost      int `json:"lost"`     // holds that ended before Unlock
	Vanished  int `json:"vanished"` // … before their deadline
	Ends      int `json:"ends"`     // locks of disturbed holders whose end was awaited
	Scripts   int `json:"scripts"`

	LatestWait time.Duration `json:"-"` // after the end of the wait
	LatestLoss time.Duration `json:"-"` // after the deadline
	LatestEnd  time.Duration `json:"-"` // after the lease

	Faults      map[string]int `json:"faults"`
	Failovers   int            `json:"fail_overs"`
	Ballast     int            `json:"held_during_fail_over"`
	BallastLost int            `json:"lost_in_fail_over"`
	Outage      time.Duration  `json:"-"` // during the fail-over
}

// Costs are the times of operations of a single process without contention.
type Costs struct {
	Pair     Cost `json:"pair"`      // taking and releasing a free lock
	HandOver Cost `json:"hand_over"` // from a release to the grant in another process
	Wait     Cost `json:"wait"`      // WAIT for one replica
}

// A Promise is one row of the verdict.
type Promise struct {
	Promise string `json:"promise"`
	Tried   string `json:"tried"`
	Saw     string `json:"saw"`
	Broken  int    `json:"broken"` // cases
}

// A Finding is a broken promise, with the first case.
type Finding struct {
	Symptom Symptom `json:"symptom"`
	Times   int     `json:"times"`
	First   string  `json:"first"`
}

// A Result is the verdict of a run.
type Result struct {
	Server      Server    `json:"server"`
	Started     time.Time `json:"started"`
	Ended       time.Time `json:"ended"`
	Processes   int       `json:"processes"`
	With        string    `json:"with,omitempty"` // the program of every second process
	Replicas    int       `json:"wait_for_replicas"`
	Interrupted bool      `json:"interrupted"`
	Promises    []Promise `json:"promises"`
	Findings    []Finding `json:"findings"`
	Seen
	Costs    Costs   `json:"costs"`
	Share    float64 `json:"share"`    // of the server's time, that was used
	Restarts int     `json:"restarts"` // including fail-overs
	NoPauses bool    `json:"no_pauses"`

	NoFailover bool `json:"no_fail_over"` // one was asked for, and none was noticed
}

// Broken reports whether a promise was broken.
func (r *Result) Broken() bool { return len(r.Findings) > 0 }

// result returns the verdict. All processes have ended.
func (r *run) result(started time.Time) *Result {
	l := r.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	res := &Result{
		Server: describe(r.nodes, r.o.Client, r.o.Sentinel), Started: started.UTC(), Ended: time.Now().UTC(), Processes: r.o.Processes, With: r.o.With,
		Replicas: r.o.Replicas, Seen: l.seen, Costs: r.costs, Restarts: r.server.restarts(), NoPauses: r.unpausable, Findings: []Finding{},
	}
	if r.server.several() {
		res.Server.Topology = "several servers at one address"
	}
	res.NoFailover = r.o.Failover != nil && res.Failovers == 0
	res.Share = float64(time.Duration(l.seen.Scripts)*r.setup.Cost) / float64(time.Since(started))
	counts := make(map[Symptom]int)
	for i := range l.findings {
		f := &l.findings[i]
		if r.isLoss(f) {
			f.symptom = LostWrites
		}
		counts[f.symptom]++
	}
	slices.SortStableFunc(l.findings, func(a, b finding) int {
		return cmp.Compare(slices.Index(allSymptoms, a.symptom), slices.Index(allSymptoms, b.symptom))
	})
	for _, f := range l.findings {
		if n := len(res.Findings); n == 0 || res.Findings[n-1].Symptom != f.symptom {
			res.Findings = append(res.Findings, Finding{Symptom: f.symptom, Times: counts[f.symptom], First: f.text})
		}
	}
	res.promises(counts)
	return res
}

// isLoss reports whether a finding shows that a restart or a fail-over has lost writes: without one it would be a worse fault.
func (r *run) isLoss(f *finding) bool {
	switch f.symptom {
	case TwoHolders, TokensFell, Vanished:
		return r.server.changed(f.at-ballastLease, f.at, slack)
	}
	return false
}

// Thousands writes a number with commas: 1,000.
func Thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// count is a number of things, which are given in the plural.
func count(n int, things string) string {
	if n == 1 {
		things = strings.TrimSuffix(things, "s")
	}
	return Thousands(n) + " " + things
}

// promises fills the rows of the verdict.
func (r *Result) promises(counts map[Symptom]int) {
	row := func(promise string, tried int, what, good string, of Symptom) {
		p := Promise{Promise: promise, Tried: count(tried, what), Saw: good}
		p.Broken = counts[of]
		if p.Broken > 0 {
			p.Saw = "BROKEN, " + count(p.Broken, "cases")
		} else if tried == 0 {
			p.Tried, p.Saw = "not tried", ""
		}
		r.Promises = append(r.Promises, p)
	}
	late := func(d time.Duration, after string) string {
		return fmt.Sprintf("within %v of %s", max(d, 0).Round(time.Millisecond), after)
	}
	row("one holder, or n permits", r.Holds, "holds", "no overlap", TwoHolders)
	row("fencing tokens rise", r.Holds, "tokens", "always", TokensFell)
	row("no hold vanishes", r.Holds, "holds", "none", Vanished)
	row("a lock ends with its lease", r.Ends, "disturbed holders", late(r.LatestEnd, "the lease"), NoEnd)
	row("a loss is noticed in time", r.Lost, "lost holds", late(r.LatestLoss, "the deadline"), Unnoticed)
	row("fair locks keep the order", r.Ordered, "waits", "in order", Overtaken)
	row("a wait ends in time", r.Limited, "waits", late(r.LatestWait, "its end"), Overdue)
	row("answers are as documented", r.Holds, "holds", "always", Unexpected)
	row("a fail-over loses no lock", r.Restarts, "restarts", "none lost", LostWrites)
}

// Verdict is the result in one line.
func (r *Result) Verdict() string {
	switch {
	case r.Broken():
		var all []string
		for _, f := range r.Findings {
			all = append(all, fmt.Sprintf("%s (%d)", f.Symptom, f.Times))
		}
		return "broken: " + strings.Join(all, "; ")
	case r.Interrupted:
		return "interrupted: no promise was broken until then"
	case r.NoFailover:
		return "incomplete: no promise was broken, but no fail-over was noticed"
	}
	return "holds: no promise was broken"
}
