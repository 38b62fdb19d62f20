package soak

import (
	"encoding/json"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/locktest/judge"
	"github.com/lockmw/go/internal/test/redistest"
)

// A slot of the soak has one child after another, each at the same proxy. Of several servers, which tell clients where the
// others are, there is none.
type slot struct {
	s     *soak
	n     int
	proxy *redistest.Proxy // nil: there are several servers
	words tail             // what the children print
	stops judge.Intervals

	births int
	life   *life
}

// A life is one child. What is registered for the end of the test comes with its own end: in half an
// hour there are many of them.
type life struct {
	testing.TB
	slot     *slot
	child    *redistest.Child
	stopped  bool
	cleanups []func()
	over     chan struct{} // closed when all reports are read
}

// Cleanup registers f for the end of the life.
func (l *life) Cleanup(f func()) { l.cleanups = append(l.cleanups, f) }

// Output is where the child's words go.
func (l *life) Output() io.Writer { return &l.slot.words }

// start begins a new life.
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

// process names the life in the audit.
func (l *life) process() int { return l.slot.n }

// read takes in what the child reports.
func (l *life) read() {
	defer close(l.over)
	for raw := range l.child.Reports() {
		var r loadReport
		if err := json.Unmarshal(raw, &r); err != nil {
			l.slot.s.audit.Blame("child %d: a report that cannot be read: %s", l.slot.n, raw)
			return
		}
		l.slot.s.heard(l, &r)
	}
}

// heard deals with what a child reports.
func (s *soak) heard(l *life, r *loadReport) {
	p := l.slot
	switch r.Event {
	case loadGranted:
		s.audit.Grant(r.Key, &judge.Entry{Process: l.process(), Token: r.Token, Asked: r.Asked, Granted: r.At, Deadline: r.Deadline})
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

// stop stops the child in its tracks.
func (p *slot) stop() {
	p.stops.Begin(judge.MachineTime(time.Now()))
	p.life.child.Pause(p.s.t)
	p.life.stopped = true
}

// cont ends stop.
func (p *slot) cont() {
	p.life.stopped = false
	p.life.child.Resume(p.s.t)
	p.stops.End(judge.MachineTime(time.Now()))
}

// kill ends the child at once; another one takes its place.
func (p *slot) kill() {
	l, at := p.life, judge.MachineTime(time.Now())
	l.child.Kill()
	<-l.over
	p.s.audit.Killed(l.process(), at)
	l.end()
	p.start()
}

// leave ends the child in good order.
func (p *slot) leave() {
	p.life.child.End()
	<-p.life.over
	p.life.end()
}

// end does what was registered for it, once.
func (l *life) end() {
	for _, f := range slices.Backward(l.cleanups) {
		f()
	}
	l.cleanups = nil
}

// A tail is the last of what is written to it. Safe for concurrent use.
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
