package env

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/test/redistest"
)

// A Process is a holder in another process.
type Process struct {
	E     *Env
	Child *redistest.Child
	Over  chan struct{} // closed after the last report

	Mu    sync.Mutex // guards the fields below and the state of the calls
	Calls []*Remote
	News  chan struct{} // closed at the next report
}

// A Remote is a call for a lock in another process, and the hold that it received.
type Remote struct {
	P       *Process
	N       int
	Key     string
	Reports map[string]judge.Report // the last report of each event
	span    *judge.Span             // of the hold
}

// Process starts a process that takes the same locks as the scenario's Locker.
func (e *Env) Process() *Process {
	e.T.Helper()
	e.Rec.KeepSpans()
	p := &Process{E: e, Over: make(chan struct{}), News: make(chan struct{})}
	p.Child = redistest.StartChild(e.TB, e.Server.Child(holderRole))
	go p.Listen()
	return p
}

// Processes starts n processes.
func (e *Env) Processes(n int) []*Process {
	all := make([]*Process, n)
	for i := range all {
		all[i] = e.Process()
	}
	return all
}

// Listen records the reports of the process until it ends.
func (p *Process) Listen() {
	defer close(p.Over)
	for raw := range p.Child.Reports() {
		var r judge.Report
		if err := json.Unmarshal(raw, &r); err != nil {
			p.E.T.Errorf("invalid report: %s", raw)
			continue
		}
		p.note(r)
	}
}

func (p *Process) note(r judge.Report) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	c := p.Calls[r.Call]
	c.Reports[r.Event] = r
	c.span = p.E.Rec.Report(c.span, r)
	if r.Event == judge.Late {
		p.E.T.Errorf("the context of %q was still alive %v after its deadline", r.Key, r.At-r.Deadline)
	}
	close(p.News)
	p.News = make(chan struct{})
}

// Lock makes the process call Lock.
func (p *Process) Lock(key string, lease time.Duration) *Remote { return p.LockAs("", key, lease) }

// Wait makes the process call Lock for a held key, and returns once the call is queued.
func (p *Process) Wait(key string) *Remote {
	p.E.T.Helper()
	side := ""
	if p.E.Config.Mode == ReadMode {
		side = "write"
	}
	c := p.LockAs(side, key, 0)
	c.Waits()
	return c
}

// LockAs is Lock with the given side.
func (p *Process) LockAs(side, key string, lease time.Duration) *Remote {
	p.E.T.Helper()
	p.Mu.Lock()
	c := &Remote{P: p, N: len(p.Calls), Key: key, Reports: make(map[string]judge.Report)}
	p.Calls = append(p.Calls, c)
	p.Mu.Unlock()
	p.Child.Order(Order{Do: "lock", Call: c.N, Side: side, Key: key, Lease: lease})
	return c
}

// Kill kills the process, which ends its holds, and returns the time.
func (p *Process) Kill() time.Time {
	now := time.Now()
	p.Child.Kill()
	<-p.Over // earlier reports count
	p.Mu.Lock()
	defer p.Mu.Unlock()
	for _, c := range p.Calls {
		p.E.Rec.Killed(c.span, now)
	}
	return now
}

// Await waits for an event of the call and returns its last report.
func (c *Remote) Await(event string, within time.Duration) judge.Report {
	c.P.E.T.Helper()
	start := time.Now()
	limit := time.NewTimer(within)
	defer limit.Stop()
	for {
		c.P.Mu.Lock()
		r, ok := c.Reports[event]
		news, trouble := c.P.News, c.Reports[judge.Failed]
		c.P.Mu.Unlock()
		switch {
		case ok:
			return r
		case trouble.Event != "":
			c.P.E.T.Fatalf("the other process: %s", trouble.Err)
		}
		select {
		case <-news:
		case <-c.P.Over:
			c.P.E.T.Fatalf("the other process ended without the event %q", event)
		case <-limit.C:
			left := within - c.P.E.Pace.Since(start)
			if left <= 0 {
				c.P.E.T.Fatalf("the other process did not report %q within %v", event, within)
			}
			limit.Reset(left)
		}
	}
}

// Waits checks that the call is queued.
func (c *Remote) Waits() { c.P.E.T.Helper(); c.Await(judge.Queued, Patience) }

// Gets checks that the call gets the lock.
func (c *Remote) Gets(within time.Duration) judge.Report {
	c.P.E.T.Helper()
	return c.Await(judge.Granted, within)
}

// NotReported checks that the event was not reported.
func (c *Remote) NotReported(event string) {
	c.P.E.T.Helper()
	c.P.Mu.Lock()
	defer c.P.Mu.Unlock()
	if r, ok := c.Reports[event]; ok {
		c.P.E.T.Errorf("the other process reported %q: %+v", event, r)
	}
}

// Unlock makes the process unlock, and returns its report.
func (c *Remote) Unlock() judge.Report {
	c.P.E.T.Helper()
	c.P.Child.Order(Order{Do: "unlock", Call: c.N})
	return c.Await(judge.Done, Patience)
}

// Released unlocks and checks that Unlock succeeds.
func (c *Remote) Released() {
	c.P.E.T.Helper()
	if r := c.Unlock(); r.Err != "" {
		c.P.E.T.Errorf("Unlock in the other process: %s", r.Err)
	}
}

// Watch makes the process poll the hold's context, and returns once it does.
func (c *Remote) Watch() {
	c.P.E.T.Helper()
	c.P.Child.Order(Order{Do: "watch", Call: c.N})
	c.Await(watching, Patience)
}
