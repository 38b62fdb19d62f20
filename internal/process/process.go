// Package process runs programs that end with this one: servers, and copies of this program itself.
//
//	p, err := process.Start(exec.CommandContext(ctx, path))
//	…
//	p.Kill()
//
// On Linux a process ends with the one that started it, however that ends: a test that times out leaves no process behind.
package process

import (
	"bytes"
	"os/exec"
	"runtime"
	"sync"
)

// A Process is a running program. Its methods are safe for concurrent use.
type Process struct {
	cmd    *exec.Cmd
	output *tail
	ended  chan struct{}
	err    error // of its end; set before ended is closed
}

// Start runs cmd. The end of its output is kept for Output, unless cmd has an output already.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, output: new(tail), ended: make(chan struct{})}
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
		// The process ends with the thread that started it (endWithParent), so this thread is kept.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// PID returns the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the process immediately, and waits for its end. It may have ended before.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Err waits for the end of the process, and returns how it ended: nil if it exited with 0.
func (p *Process) Err() error {
	<-p.ended
	return p.err
}

// Output returns the end of the output so far.
func (p *Process) Output() string { return p.output.text() }

// tail keeps the end of a process' output.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if extra := len(t.buf) - tailSize; extra > 0 {
		t.buf = t.buf[extra:]
	}
	return len(p), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}
