package docs

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/test/suite"
)

// The page lists the main path of a lock as the command prints it, and the path stays short.
func TestArchitectureListsTheMainPath(t *testing.T) {
	suite.NeedsFull(t, "builds a program")
	printed, err := exec.CommandContext(t.Context(), "go", "run", "../lockpath").Output()
	if err != nil {
		t.Fatal(err)
	}
	path, _, found := strings.Cut(string(printed), "with all helpers")
	if !found {
		t.Fatalf("no main path is printed: %s", printed)
	}
	text, err := os.ReadFile(root + "/docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "```\n"+path+"```\n") {
		t.Errorf("docs/architecture.md does not list this path:\n%s", path)
	}
	functions := strings.Count(path, ", ") + strings.Count(path, ": ") - 1
	if files := strings.Count(path, ".go: "); functions > 40 || files > 20 {
		t.Errorf("%d functions in %d files, more than 40 in 20", functions, files)
	}
}

// Readers can remember 40 words. Each has one meaning, and one row.
func TestWordsAreFew(t *testing.T) {
	seen := make(map[string]bool)
	for _, row := range tableRows(t, "architecture.md", "| word |") {
		word := strings.TrimSpace(strings.Split(row, "|")[1])
		if seen[word] {
			t.Errorf("%q has two rows", word)
		}
		seen[word] = true
	}
	if len(seen) > 40 {
		t.Errorf("there are %d words, more than 40", len(seen))
	}
}
