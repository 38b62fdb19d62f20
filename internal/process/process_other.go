//go:build !linux

package process

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
)

// endWithParent does nothing: only Linux ends a process with its parent.
func endWithParent(*exec.Cmd) {}

// Pause returns errors.ErrUnsupported.
func (p *Process) Pause(context.Context) error {
	return fmt.Errorf("stopping a process: %w", errors.ErrUnsupported)
}

// Resume does nothing.
func (p *Process) Resume() error { return nil }
