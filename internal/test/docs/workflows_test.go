package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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

// The hosted CI runs the same parts as .ci/run, and pages name no others.
func TestTheWorkflowRunsAllPartsOfCI(t *testing.T) {
	parts := regexp.MustCompile(`(?m)^parts=\(([a-z ]+)\)$`).FindStringSubmatch(read(t, ".ci/run"))
	matrix := regexp.MustCompile(`(?m)^ *part: \[([a-z, ]+)\]$`).FindStringSubmatch(read(t, ".github/workflows/ci.yml"))
	if parts == nil || matrix == nil || parts[1] != strings.ReplaceAll(matrix[1], ",", "") {
		t.Fatalf(".ci/run has the parts %q, the workflow %q", parts, matrix)
	}
	for _, page := range []string{"CONTRIBUTING.md", "docs/testing.md", "docs/releasing.md"} {
		for _, call := range regexp.MustCompile(`bash \.ci/run ([a-z ]+)`).FindAllStringSubmatch(read(t, page), -1) {
			for part := range strings.FieldsSeq(call[1]) {
				if !slices.Contains(strings.Fields(parts[1]), part) {
					t.Errorf("%s: .ci/run has no part %q", page, part)
				}
			}
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
