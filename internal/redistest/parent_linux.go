package redistest

import (
	"os/exec"
	"syscall"
)

// endWithParent lets the kernel end cmd should this program end without its cleanups: a test that
// timed out must not leave a server behind.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
