package locktest

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
)

// A process is a holder in another process, as the scenario sees it.
type process struct {
	e     *env
	child *redistest.Child
	over  chan struct{} // closed when all reports are read

	mu    sync.Mutex // guards what is below, and what the calls have reported
	calls []*remote
	news  chan struct{} // closed at the next report
}

// A remote is a call for a lock in another process, and the hold that comes of it.
type remote struct {
	p    *process
	n    int
	key  string
	said map[string]report // the last of each event
	span *span             // of the hold
}

// process starts a process that takes locks as the scenario's Locker does.
func (e *env) process() *process {
	e.t.Helper()
	e.rec.KeepSpans()
	p := &process{e: e, over: make(chan struct{}), news: make(chan struct{})}
	p.child = redistest.StartChild(e.tb, childSpec{Role: "holder", Addr: e.server.Addr(), Prefix: e.prefix, Kind: e.cfg.kind()})
	go p.listen()
	return p
}

// processes starts n of them.
func (e *env) processes(n int) []*process {
	all := make([]*process, n)
	for i := range all {
		all[i] = e.process()
	}
	return all
}

func (p *process) listen() {
	defer close(p.over)
	for raw := range p.child.Reports() {
		var r report
		if err := json.Unmarshal(raw, &r); err != nil {
			p.e.t.Errorf("a report that cannot be read: %s", raw)
			continue
		}
		p.note(r)
	}
}

func (p *process) note(r report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.calls[r.Call]
	c.said[r.Event] = r
	c.span = p.e.rec.report(c.span, r)
	if r.Event == late {
		p.e.t.Errorf("the context of %q was alive %v after its deadline", r.Key, r.At-r.Deadline)
	}
	close(p.news)
	p.news = make(chan struct{})
}

// lock has the process ask for a lock.
func (p *process) lock(key string, lease time.Duration) *remote { return p.lockAs("", key, lease) }

// wait has the process ask for a lock that a holder keeps from it, and returns when it waits.
func (p *process) wait(key string) *remote {
	p.e.t.Helper()
	side := ""
	if p.e.cfg.Mode == readMode {
		side = "write"
	}
	c := p.lockAs(side, key, 0)
	c.waits()
	return c
}

// lockAs is lock by one of the sides.
func (p *process) lockAs(side, key string, lease time.Duration) *remote {
	p.e.t.Helper()
	p.mu.Lock()
	c := &remote{p: p, n: len(p.calls), key: key, said: make(map[string]report)}
	p.calls = append(p.calls, c)
	p.mu.Unlock()
	p.child.Order(order{Do: "lock", Call: c.n, Side: side, Key: key, Lease: lease})
	return c
}

// kill ends the process, and with it what it held, and says when.
func (p *process) kill() time.Time {
	now := time.Now()
	p.child.Kill()
	<-p.over // what it has said before counts
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.calls {
		p.e.rec.killed(c.span, now)
	}
	return now
}

// says waits for an event of the call, and returns the last report of it.
func (c *remote) says(event string, within time.Duration) report {
	c.p.e.t.Helper()
	start := time.Now()
	limit := time.NewTimer(within)
	defer limit.Stop()
	for {
		c.p.mu.Lock()
		r, ok := c.said[event]
		news, trouble := c.p.news, c.said[failed]
		c.p.mu.Unlock()
		switch {
		case ok:
			return r
		case trouble.Event != "":
			c.p.e.t.Fatalf("the call of the other process: %s", trouble.Err)
		}
		select {
		case <-news:
		case <-c.p.over:
			c.p.e.t.Fatalf("the other process ended before it was %s", event)
		case <-limit.C:
			left := within - c.p.e.pace.since(start)
			if left <= 0 {
				c.p.e.t.Fatalf("the call of the other process is not %s after %v", event, within)
			}
			limit.Reset(left)
		}
	}
}

// waits checks that the call has to.
func (c *remote) waits() { c.p.e.t.Helper(); c.says(queued, patience) }

// gets checks that the call gets the lock.
func (c *remote) gets(within time.Duration) report {
	c.p.e.t.Helper()
	return c.says(granted, within)
}

// hasNot checks that an event has not been reported.
func (c *remote) hasNot(event string) {
	c.p.e.t.Helper()
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if r, ok := c.said[event]; ok {
		c.p.e.t.Errorf("the call of the other process is %s: %+v", event, r)
	}
}

// unlock has the process unlock, and returns what comes of it.
func (c *remote) unlock() report {
	c.p.e.t.Helper()
	c.p.child.Order(order{Do: "unlock", Call: c.n})
	return c.says(done, patience)
}

// released checks that unlock had nothing to complain of.
func (c *remote) released() {
	c.p.e.t.Helper()
	if r := c.unlock(); r.Err != "" {
		c.p.e.t.Errorf("Unlock in the other process: %s", r.Err)
	}
}
