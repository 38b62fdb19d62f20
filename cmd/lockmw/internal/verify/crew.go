package verify

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/process"
)

// A member is a worker process from the view of the one that started it. Its methods are for one goroutine.
type member struct {
	run       *run
	number    int
	child     *process.Child
	disturbed judge.Intervals
	ready     chan struct{}
	over      chan struct{} // closed after the last report
	output    output
	lastCall  int
	dead      bool
}

// output keeps the beginning of what a process prints. It is read after the end of the process.
type output struct{ buf bytes.Buffer }

func (o *output) Write(b []byte) (int, error) {
	if o.buf.Len() < 4<<10 {
		o.buf.Write(b)
	}
	return len(b), nil
}

// patience is how long a worker may take to start or to end.
const patience = 20 * time.Second

// start starts a member.
func (r *run) start(number int) (*member, error) {
	m := &member{run: r, number: number, ready: make(chan struct{}), over: make(chan struct{})}
	child, err := process.StartChild(context.WithoutCancel(r.ctx), "lockmw verify", func(cmd *exec.Cmd) {
		if r.o.With != "" && number%2 == 0 {
			cmd.Path = r.o.With
		}
		cmd.Stderr = &m.output
		cmd.Env = slices.DeleteFunc(cmd.Env, func(v string) bool { // the first order has the address
			return strings.HasPrefix(v, "LOCKMW_PASSWORD=")
		})
	})
	if err != nil {
		return nil, err
	}
	m.child = child
	go m.read()
	m.order(r.setup)
	return m, nil
}

// read hears reports until the process ends.
func (m *member) read() {
	defer close(m.over)
	defer m.child.CloseReports()
	for {
		var r report
		if m.child.Reports.Decode(&r) != nil {
			return // a report that a killed process was still writing is lost
		}
		m.run.ledger.heard(m, &r)
	}
}

// begin lets the worker begin once it is connected.
func (m *member) begin() error {
	select {
	case <-m.ready:
		m.order(order{Do: doWork})
		return nil
	case <-m.over:
	case <-m.run.ctx.Done():
		return m.run.ctx.Err()
	case <-time.After(patience):
	}
	return fmt.Errorf("a process does not start: %s", m.crash())
}

// order sends an order, or the setup. The end of a process is noticed by the end of its reports.
func (m *member) order(o any) { _ = m.child.Orders.Encode(o) }

// ask orders a call for a key, which waits for at most the given time. The lease is 0 for the usual one.
func (m *member) ask(key string, wait, lease time.Duration) *entry {
	m.lastCall++
	o := order{Do: doHold, N: m.lastCall, Key: key, For: wait, Lease: lease}
	e := m.run.ledger.expect(m, -o.N, key)
	m.order(o)
	return e
}

// release ends the call of an order.
func (e *entry) release() { e.m.order(order{Do: doRelease, N: -e.call}) }

// kill kills the process, and returns when all of its reports were heard.
func (m *member) kill() {
	at := time.Now()
	m.child.Kill()
	<-m.over
	m.dead = true
	m.run.ledger.killed(m, at)
}

// end lets the process end, and kills it if it takes too long. The error says that it had ended before, or was killed though the
// server answers.
func (m *member) end() error {
	if m.dead {
		return nil
	}
	why, from := m.crash(), judge.MachineNow()
	m.child.CloseOrders()
	_ = m.child.Resume() // it may be stopped
	limit := time.AfterFunc(patience/2, m.child.Kill)
	defer limit.Stop()
	<-m.over
	m.dead = true
	m.run.ledger.killed(m, time.Now())
	switch err := m.child.Err(); {
	case why != "":
		return ended(why)
	case limit.Stop() && err != nil:
		return ended(m.how())
	case err != nil && !m.run.server.troubled(from, judge.MachineNow()):
		return fmt.Errorf("a process did not end: its calls did not return within %v after their contexts had ended", patience/2)
	}
	return nil
}

func ended(why string) error { return fmt.Errorf("a process ended: %s", why) }

// crash returns why a worker that should run has ended; "" if it runs.
func (m *member) crash() string {
	if m.dead || !m.hasEnded() {
		return ""
	}
	return m.how()
}

func (m *member) hasEnded() bool {
	select {
	case <-m.over:
		return true
	default:
		return false
	}
}

// how returns how a process has ended.
func (m *member) how() string {
	how := "exit status 0"
	if err := m.child.Err(); err != nil { // its output is complete
		how = err.Error()
	}
	return cmp.Or(m.output.buf.String(), how)
}
