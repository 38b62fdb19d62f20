package rw

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/redistest"
)

const (
	mingleChildren = 4
	mingleLease    = 600 * time.Millisecond
	mingleTick     = 400 * time.Millisecond // between faults
	mingleStop     = 3 * mingleLease / 2
	// mingleWait is the longest allowed wait: each other call once, some of which are dead or stopped for a lease or an accept
	// window.
	mingleWait = mingleChildren*(env.AcceptWindow+mingleLease) + mingleStop + 3*env.PollInterval
)

// Mingle makes several processes read and write one key for about the given length, while it kills and stops some of them. It
// checks that writers exclude all others, that tokens are correct and that every process makes progress. c's Locker has two
// sides. The TestMain of the test binary must call locktest.Main.
func Mingle(t *testing.T, c env.Config, length time.Duration, seed uint64) {
	e := env.New(t, c)
	e.Rec.KeepSpans()
	f := &fray{e: e, seed: seed, key: e.Key("item"), rng: rand.New(rand.NewPCG(seed, 0)), faults: env.NewTally()}
	for i := range mingleChildren {
		f.slots = append(f.slots, f.start(i))
	}
	start := time.Now()
	f.disturb(start.Add(length))
	f.calmDown()
	for _, m := range f.slots {
		m.process.Resume(f.e.TB)
		m.process.End()
		<-m.over
	}
	// A killed child may still hold the key or be queued.
	_, held, err := e.Rec.Lock(e.Ctx, e.Client(), f.key)
	if err != nil {
		t.Fatalf("taking the key at the end: %v", err)
	}
	release(e, held)
	f.judge(time.Since(start))
}

// A fray is the state of Mingle.
type fray struct {
	e      *env.Env
	seed   uint64
	key    string
	rng    *rand.Rand
	faults *env.Tally
	slots  []*minglings
	births uint64

	mu    sync.Mutex // guards the fields below
	holds []mingledHold
	turns [mingleChildren][2]int // number of reads and writes of each child
	waits [2]time.Duration       // the longest wait of readers and of writers
}

// A mingledHold is a hold that a child has reported.
type mingledHold struct {
	*judge.Span
	child int
}

// minglings are a child and its reports.
type minglings struct {
	f       *fray
	n       int
	process *redistest.Child
	over    chan struct{} // closed after the last report
	stops   judge.Intervals
	spans   map[int]*judge.Span // by the number of the call
}

// start starts a child.
func (f *fray) start(n int) *minglings {
	f.births++
	m := &minglings{f: f, n: n, over: make(chan struct{}), spans: make(map[int]*judge.Span)}
	m.process = redistest.StartChild(f.e.TB, f.e.Server.Child(mingleRole))
	m.process.Order(mingleOrder{
		Seed: f.seed + f.births, Key: f.key, Readers: 6, Writers: 2, Lease: mingleLease,
	})
	go m.listen()
	return m
}

func (m *minglings) listen() {
	defer close(m.over)
	for raw := range m.process.Reports() {
		var r mingleReport
		if err := json.Unmarshal(raw, &r); err != nil {
			m.f.e.T.Errorf("invalid report: %s", raw)
		} else {
			m.hear(&r)
		}
	}
}

func (m *minglings) hear(r *mingleReport) {
	if r.Wrong != "" {
		m.f.e.T.Errorf("child %d: %s", m.n, r.Wrong)
		return
	}
	s := m.f.e.Rec.Report(m.spans[r.Call], r.Report)
	m.spans[r.Call] = s
	if r.Event != judge.Granted {
		return
	}
	m.f.mu.Lock()
	defer m.f.mu.Unlock()
	m.f.holds = append(m.f.holds, mingledHold{s, m.n})
	i := 0
	if !r.Reads {
		i = 1
	}
	m.f.turns[m.n][i]++
	m.f.waits[i] = max(m.f.waits[i], r.At-r.Asked-m.stops.Within(r.Asked, r.At))
}

// disturb injects faults until end.
func (f *fray) disturb(end time.Time) {
	tick := time.NewTicker(mingleTick)
	defer tick.Stop()
	for time.Now().Before(end) && !f.e.T.Failed() {
		<-tick.C
		m := f.slots[f.rng.IntN(len(f.slots))]
		switch p := f.rng.Float64(); {
		case p < 0.25:
			f.count("killed")
			f.kill(m)
		case p < 0.5:
			f.count("stopped")
			m.stops.Begin(judge.MachineTime(time.Now()))
			m.process.Pause(f.e.TB)
			f.e.Pass(env.Between(f.rng, 0, mingleStop))
			m.process.Resume(f.e.TB)
			m.stops.End(judge.MachineTime(time.Now()))
		case p < 0.6:
			f.count("subscriptions killed")
			f.e.Server.Admin.ClientKillByFilter(f.e.Ctx, "TYPE", "pubsub")
		case p < 0.7:
			f.count("scripts flushed")
			f.e.Server.FlushScripts()
		}
	}
}

// calmDown waits until every child has read and written again.
func (f *fray) calmDown() {
	f.mu.Lock()
	before := f.turns
	f.mu.Unlock()
	f.e.Eventually(mingleWait, func() string {
		f.mu.Lock()
		defer f.mu.Unlock()
		for n, now := range f.turns {
			if read, written := now[0]-before[n][0], now[1]-before[n][1]; read < 20 || written < 5 {
				return fmt.Sprintf("seed %d: without faults, child %d has read %d times and written %d times", f.seed, n, read, written)
			}
		}
		return ""
	})
}

func (f *fray) count(fault string) { f.faults.Add(map[string]int{fault: 1}) }

// kill kills a child and starts another one.
func (f *fray) kill(m *minglings) {
	now := time.Now()
	m.process.Kill()
	<-m.over
	for _, s := range m.spans {
		f.e.Rec.Killed(s, now)
	}
	f.slots[m.n] = f.start(m.n)
}

// judge checks the children's reports.
func (f *fray) judge(took time.Duration) {
	t := f.e.TB
	for _, v := range f.e.Rec.Violations() {
		t.Errorf("seed %d: %s", f.seed, v)
	}
	reads, processes := f.crowded()
	var turns [2]int
	for _, of := range f.turns {
		turns[0], turns[1] = turns[0]+of[0], turns[1]+of[1]
	}
	for i, wait := range f.waits {
		if wait > mingleWait {
			t.Errorf("seed %d: a call waited %v to %s", f.seed, wait, []string{"read", "write"}[i])
		}
	}
	if reads < 4 || processes < 2 {
		t.Errorf("seed %d: only up to %d concurrent readers, in %d processes", f.seed, reads, processes)
	}
	t.Logf("%v, seed %d: %d reads, up to %d concurrent ones in %d processes, and %d writes; longest waits %v and %v; faults: %v",
		took.Round(time.Second), f.seed, turns[0], reads, processes, turns[1],
		f.waits[0].Round(time.Millisecond), f.waits[1].Round(time.Millisecond), f.faults)
}

// crowded returns the highest number of concurrent readers, and of their processes.
func (f *fray) crowded() (reads, processes int) {
	type edge struct {
		at    time.Duration
		child int
		n     int
	}
	var edges []edge
	for _, h := range f.holds {
		if h.Reads {
			edges = append(edges, edge{h.From, h.child, 1}, edge{max(h.From, h.Until(false)), h.child, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.n, b.n)) })
	now, of := 0, make(map[int]int)
	for _, x := range edges {
		now += x.n
		if of[x.child] += x.n; of[x.child] == 0 {
			delete(of, x.child)
		}
		reads, processes = max(reads, now), max(processes, len(of))
	}
	return reads, processes
}
