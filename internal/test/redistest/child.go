package redistest

import (
	"context"
	"encoding/json"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/lockmw/go/internal/process"
)

// ChildMain is process.ChildMain for a test binary: TestMain calls it before anything else.
func ChildMain[Spec any](life func(spec Spec, orders *json.Decoder, reports *json.Encoder) error) {
	process.ChildMain(life)
}

// A Child is a process that runs the test binary itself. Its methods are not safe for concurrent use.
type Child struct {
	t       testing.TB
	child   *process.Child
	reports chan json.RawMessage
	over    chan struct{} // closed when reports are no longer read
	killed  bool
}

// StartChild starts a child with a spec for ChildMain. Its orders end with the test, and then the child must end. The test is
// skipped on systems where the child would outlive the test's process.
func StartChild(t testing.TB, spec any) *Child {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("child processes are started on Linux only")
	}
	child, err := process.StartChild(context.Background(), spec, func(cmd *exec.Cmd) { cmd.Stderr = t.Output() })
	if err != nil {
		t.Fatalf("starting a child: %v", err)
	}
	c := &Child{t: t, child: child, reports: make(chan json.RawMessage, 100), over: make(chan struct{})}
	go c.read()
	t.Cleanup(func() {
		close(c.over)
		c.End()
		for range c.reports { // until it is closed: the reader has ended
		}
	})
	return c
}

// read passes reports on until the child ends. A report that a killed child was still writing is lost.
func (c *Child) read() {
	defer close(c.reports)
	defer c.child.CloseReports()
	for {
		var r json.RawMessage
		if err := c.child.Reports.Decode(&r); err != nil {
			return
		}
		select {
		case c.reports <- r:
		case <-c.over: // reads on, so that the child can end
		}
	}
}

// Order sends the child one order.
func (c *Child) Order(v any) {
	c.t.Helper()
	if err := c.child.Orders.Encode(v); err != nil && !c.killed {
		c.t.Errorf("sending an order to a child: %v", err)
	}
}

// Reports returns the child's reports, until it ends. A child that reports much waits for its reports to be read.
func (c *Child) Reports() <-chan json.RawMessage { return c.reports }

// Err waits for the child's end, and returns how it ended: nil if it ended without an error.
func (c *Child) Err() error { return c.child.Err() }

// PID returns the number of the child's process.
func (c *Child) PID() int { return c.child.PID() }

// Pause stops the child's process; Resume continues it. The test is skipped where processes cannot be stopped.
func (c *Child) Pause(t testing.TB) {
	t.Helper()
	pause(t, c.child)
}

// Resume ends Pause. The child may have ended.
func (c *Child) Resume(t testing.TB) {
	t.Helper()
	resume(t, c.child)
}

// Kill ends the child immediately, and waits for its end. Its earlier reports can still be read.
func (c *Child) Kill() {
	c.killed = true
	c.child.Kill()
}

// childPatience is how long a child may take to end.
const childPatience = 30 * time.Second

// End ends the child's orders, and waits for its end.
func (c *Child) End() {
	c.t.Helper()
	c.child.CloseOrders()
	c.Resume(c.t) // it may have been stopped
	limit := time.NewTimer(childPatience)
	defer limit.Stop()
	select {
	case <-c.child.Ended():
	case <-limit.C:
		c.t.Error("a child does not end")
		c.Kill()
	}
	if err := c.Err(); err != nil && !c.killed {
		c.t.Errorf("a child ended by itself: %v", err)
	}
}
