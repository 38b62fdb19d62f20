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

func (p *Process) pause(context.Context) error {
	return fmt.Errorf("stopping a process: %w", errors.ErrUnsupported)
}

func (p *Process) resume() error { return nil }
