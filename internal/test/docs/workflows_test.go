package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var (
	usedAction = regexp.MustCompile(`(?m)^\s*(?:- )?uses:\s*(.*)$`)
	pinned     = regexp.MustCompile(`^[\w.-]+(?:/[\w.-]+)+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
)

// A tag can be moved to other code; a commit cannot.
func TestWorkflowsPinActionsToCommits(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("workflows: %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, action := range usedAction.FindAllStringSubmatch(string(text), -1) {
			if !pinned.MatchString(action[1]) {
				t.Errorf("%s uses %q: write owner/name@commit # version", filepath.Base(file), action[1])
			}
		}
	}
}
