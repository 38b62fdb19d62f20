//go:build unix

package main

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Ctrl-C reaches the program and its shops, because they are in one process group.
func TestCtrlCEndsAllProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, "-users", "100000")
	cmd.Env = append(os.Environ(), "STOCK_TEST_MAIN=1", "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	group := -cmd.Process.Pid
	lines := bufio.NewScanner(stderr)
	var last string
	interrupt := sync.OnceValue(func() error { return syscall.Kill(group, syscall.SIGINT) }) // a second one would not wait
	for lines.Scan() {
		last = lines.Text()
		if strings.Contains(last, "under load") {
			if err := interrupt(); err != nil {
				t.Fatal(err)
			}
		}
	}
	failed, ok := errors.AsType[*exec.ExitError](cmd.Wait())
	if !ok || failed.ExitCode() != exitInterrupted || last != "stock: interrupted" {
		t.Errorf("the program ended with %v, and its last line is %q", failed, last)
	}
	if err := syscall.Kill(group, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("a process is left: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
