package redistest

import (
	"bytes"
	"os/exec"
	"runtime"
	"sync"
	"testing"
)

// A Process is a program that a test runs: a server, or a child of the test binary. On Linux it ends
// with the test's own process, whatever becomes of that.
type Process struct {
	cmd    *exec.Cmd
	output *output
	ended  chan struct{}
	err    error // of its end; set before ended is closed
}

// Start runs cmd, and kills it when the test ends. What it prints to where cmd does not say is kept
// for Output.
func Start(t testing.TB, cmd *exec.Cmd) (*Process, error) {
	p, err := start(cmd)
	t.Cleanup(p.Kill)
	return p, err
}

// start is Start of a process that somebody else kills.
func start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, output: new(output), ended: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = p.output
	}
	if cmd.Stderr == nil {
		cmd.Stderr = p.output
	}
	endWithParent(cmd)
	started := make(chan error)
	go func() {
		defer close(p.ended)
		// The process ends with the thread that started it (endWithParent): this one is kept.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
	}()
	return p, <-started
}

// Pause stops the process in its tracks, and returns when it stands still; Resume lets it go on. The
// test is skipped where there is no such thing.
func (p *Process) Pause(t testing.TB) {
	t.Helper()
	if err := p.pause(t); err != nil {
		t.Fatalf("stopping process %d: %v", p.cmd.Process.Pid, err)
	}
}

// Resume ends Pause. The process may have ended.
func (p *Process) Resume(t testing.TB) {
	t.Helper()
	if err := p.resume(t); err != nil {
		t.Fatalf("resuming process %d: %v", p.cmd.Process.Pid, err)
	}
}

// Kill ends the process without a chance to do anything, and waits for its end. It may have ended.
func (p *Process) Kill() {
	if p.cmd.Process != nil {
		_ = p.cmd.Process.Kill()
	}
	<-p.ended
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Err returns how the process ended: nil if it said that all was well.
func (p *Process) Err() error {
	<-p.ended
	return p.err
}

// Output returns what the process has printed so far, as far as Start keeps it.
func (p *Process) Output() string { return p.output.String() }

// output collects what a process prints.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
