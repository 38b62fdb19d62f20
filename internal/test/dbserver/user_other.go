//go:build !unix

package dbserver

import (
	"os/exec"
	"testing"
)

// otherUser does nothing, because this system has no root user.
func otherUser(testing.TB, string) (become func(*exec.Cmd)) { return func(*exec.Cmd) {} }
