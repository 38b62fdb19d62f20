package server

import (
	"os/exec"
	"syscall"
)

// endWithParent lets the kernel end cmd should this program be killed: nothing is to be left behind.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
