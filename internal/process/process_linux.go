package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// endWithParent makes the kernel kill the process when the thread that started it ends.
func endWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}

// Pause stops the process, and returns when all its threads have stopped; Resume continues them. The error is
// errors.ErrUnsupported on systems other than Linux.
func (p *Process) Pause(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	tick := time.NewTicker(time.Millisecond) // the signal only requests that the threads stop
	defer tick.Stop()
	for {
		var stopped unix.Siginfo
		err := unix.Waitid(unix.P_PID, p.PID(), &stopped, unix.WSTOPPED|unix.WNOHANG, nil)
		if err != nil || stopped.Signo != 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-p.ended:
			return p.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Resume ends Pause. The process may have ended.
func (p *Process) Resume() error {
	if err := p.cmd.Process.Signal(syscall.SIGCONT); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
