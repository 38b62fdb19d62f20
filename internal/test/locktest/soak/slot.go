package soak

import (
	"encoding/json"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/test/redistest"
)

// A slot runs one child after another, each through the same proxy. With several servers there is no proxy, because servers
// tell clients each other's addresses.
type slot struct {
	s     *soak
	n     int
	proxy *redistest.Proxy // nil for several servers
	words tail             // output of the children
	stops judge.Intervals

	births int
	life   *life
}

// A life is one child. Its cleanups run when it ends, not at the end of the test: a long soak has many children.
type life struct {
	testing.TB
	slot     *slot
	child    *redistest.Child
	stopped  bool
	cleanups []func()
	over     chan struct{} // closed after the last report
}

// Cleanup registers f for the end of the life.
func (l *life) Cleanup(f func()) { l.cleanups = append(l.cleanups, f) }

// Output receives the child's output.
func (l *life) Output() io.Writer { return &l.slot.words }

// start starts a child.
func (p *slot) start() {
	l := &life{TB: p.s.t, slot: p, over: make(chan struct{})}
	p.births++
	p.life = l
	spec := p.s.e.Server.Child(loadRole)
	if p.proxy != nil {
		spec.Addrs = []string{p.proxy.Addr()}
	}
	l.child = redistest.StartChild(l, spec)
	l.child.Order(loadOrder{
		Seed: p.s.seed, Child: uint64(p.births)<<8 | uint64(p.n),
		Workers: soakWorkers, Keys: p.s.keys, Starved: soakStarved,
	})
	go l.read()
}

// process identifies the child in the audit.
func (l *life) process() int { return l.slot.n }

// read reads the child's reports.
func (l *life) read() {
	defer close(l.over)
	for raw := range l.child.Reports() {
		var r loadReport
		if err := json.Unmarshal(raw, &r); err != nil {
			l.slot.s.audit.Blame("child %d: invalid report: %s", l.slot.n, raw)
			return
		}
		l.slot.s.heard(l, &r)
	}
}

// heard handles a report.
func (s *soak) heard(l *life, r *loadReport) {
	p := l.slot
	switch r.Event {
	case loadGranted:
		s.audit.Grant(r.Key, &Entry{Process: l.process(), Token: r.Token, Asked: r.Asked, Granted: r.At, Deadline: r.Deadline})
	case loadRenewed:
		s.audit.Extend(r.Key, r.Token, r.Deadline)
	case loadEnded:
		s.audit.End(r.Key, r.Token, r.Deadline, r.At)
	case loadLate:
		if late := r.At - r.Asked - p.stops.Within(r.Asked, r.At); late > soakLateness {
			s.audit.Blame("child %d: %s: a call returned %v after the end of its context", p.n, r.Key, late)
		}
	case loadWrong:
		s.audit.Blame("child %d: %s: %s", p.n, r.Key, r.Wrong)
	case loadState:
		s.counts.Add(r.Counts)
		s.memory.child(p.n, r.Heap, r.Goroutines)
	}
}

// stop pauses the child.
func (p *slot) stop() {
	p.stops.Begin(judge.MachineTime(time.Now()))
	p.life.child.Pause(p.s.t)
	p.life.stopped = true
}

// cont resumes the child.
func (p *slot) cont() {
	p.life.stopped = false
	p.life.child.Resume(p.s.t)
	p.stops.End(judge.MachineTime(time.Now()))
}

// kill kills the child and starts another one.
func (p *slot) kill() {
	l, at := p.life, judge.MachineTime(time.Now())
	l.child.Kill()
	<-l.over
	p.s.audit.Killed(l.process(), at)
	l.end()
	p.start()
}

// leave ends the child normally.
func (p *slot) leave() {
	p.life.child.End()
	<-p.life.over
	p.life.end()
}

// end runs the child's cleanups once.
func (l *life) end() {
	for _, f := range slices.Backward(l.cleanups) {
		f()
	}
	l.cleanups = nil
}

// A tail keeps the end of what is written to it. It is safe for concurrent use.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(b []byte) (int, error) {
	const most = 8 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if n := len(t.text); n > 2*most {
		t.text = append(t.text[:0], t.text[n-most:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
