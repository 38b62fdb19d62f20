//go:build !unix

package dbtest

import (
	"os/exec"
	"testing"
)

// otherUser does nothing: there is no root.
func otherUser(testing.TB, string) (become func(*exec.Cmd)) { return func(*exec.Cmd) {} }
