//go:build !linux

package redistest

import (
	"os/exec"
	"testing"
)

// endWithParent does nothing: only Linux ends a process with its parent.
func endWithParent(*exec.Cmd) {}

func (p *Process) pause(t testing.TB) error {
	t.Skip("processes are stopped on Linux only")
	return nil
}

func (p *Process) resume(testing.TB) error { return nil }
