package process_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/process"
)

func TestPausedProcessHasStopped(t *testing.T) {
	path, err := exec.LookPath("yes")
	if err != nil {
		t.Skip(err)
	}
	cmd := exec.Command(path)
	cmd.Stdout = io.Discard // not kept
	p, err := process.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	for range 50 {
		if err := p.Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		states, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.PID()))
		if err != nil || len(states) == 0 {
			t.Fatalf("no threads: %v", err)
		}
		for _, file := range states {
			stat, err := os.ReadFile(file)
			if err != nil || !strings.Contains(string(stat), ") T ") {
				t.Fatalf("a thread runs: %s, %v", stat, err)
			}
		}
		if err := p.Resume(); err != nil {
			t.Fatal(err)
		}
	}
	p.Kill()
	if err := p.Resume(); err != nil {
		t.Errorf("resuming a killed process: %v", err)
	}
	if p.Err() == nil {
		t.Error("a killed process has ended without an error")
	}
}
