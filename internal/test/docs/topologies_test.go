package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What the pages say of faults was seen by tests, which they name.
func TestEachFaultOfThePagesHasItsTest(t *testing.T) {
	for page, head := range map[string]string{"topologies.md": "| what happens |", "redlock.md": "| fault |"} {
		t.Run(page, func(t *testing.T) { eachFaultHasItsTest(t, page, head) })
	}
}

func eachFaultHasItsTest(t *testing.T, page, head string) {
	text, err := os.ReadFile(filepath.Join(root, "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), head)
	table, _, _ = strings.Cut(table, "\n\n")
	there := testNames(t)
	name := regexp.MustCompile("`(Test\\w+)`")
	rows := strings.Split(table, "\n")[2:]
	if len(rows) < 5 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		named := name.FindAllStringSubmatch(row, -1)
		if len(named) == 0 {
			t.Errorf("no test: %s", row)
		}
		for _, n := range named {
			if !there[n[1]] {
				t.Errorf("there is no %s", n[1])
			}
		}
	}
}

// testNames returns the names of all tests of the repository.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, f := range function.FindAllStringSubmatch(string(text), -1) {
			names[f[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
