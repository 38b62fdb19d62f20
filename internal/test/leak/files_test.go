package leak_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lockmw/go/internal/test/leak"
)

func TestAFileThatIsLeftFailsTheRun(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var dir string
	leave := func() int {
		dir = os.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "left"), nil, 0o600); err != nil {
			t.Error(err)
		}
		return 0
	}
	if code := leak.Files(leave)(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is left: %v", err)
	}
	if code := leak.Files(func() int { return 0 })(); code != 0 {
		t.Errorf("exit code %d of tests that leave nothing", code)
	}
	if code := leak.Files(func() int { return 2 })(); code != 2 {
		t.Errorf("exit code %d of failed tests", code)
	}
}
