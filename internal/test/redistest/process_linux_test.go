package redistest_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/test/redistest"
)

func TestPausedProcessStandsStillAtOnce(t *testing.T) {
	path, err := exec.LookPath("yes")
	if err != nil {
		t.Skip(err)
	}
	cmd := exec.Command(path)
	cmd.Stdout = io.Discard // not kept
	p, err := redistest.Start(t, cmd)
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		p.Pause(t)
		states, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", cmd.Process.Pid))
		if err != nil || len(states) == 0 {
			t.Fatalf("no threads: %v", err)
		}
		for _, file := range states {
			stat, err := os.ReadFile(file)
			if err != nil || !strings.Contains(string(stat), ") T ") {
				t.Fatalf("a thread goes on: %s, %v", stat, err)
			}
		}
		p.Resume(t)
	}
	p.Kill()
	p.Resume(t) // does no harm
	if p.Err() == nil {
		t.Error("a killed process has ended well")
	}
}
