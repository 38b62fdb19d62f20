package redistest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// endWithParent lets the kernel end cmd should this program end without its cleanups: a test that
// timed out must not leave a server behind.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// pause returns when all threads of the process have stopped, which the signal only asks for.
func (p *Process) pause(t testing.TB) error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		var stopped unix.Siginfo
		err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, &stopped, unix.WSTOPPED|unix.WNOHANG, nil)
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

func (p *Process) resume(testing.TB) error {
	if err := p.cmd.Process.Signal(syscall.SIGCONT); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
