package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The pages name, for each fault, a test that shows the result.
func TestEachFaultOfThePagesHasItsTest(t *testing.T) {
	there := testFolders(t)
	named := regexp.MustCompile("`(Test\\w+)`")
	for page, head := range map[string]string{"topologies.md": "| what happens |", "redlock.md": "| fault |", "tasks.md": "| what a task meets |", "consumers.md": "| fault |"} {
		for _, row := range tableRows(t, page, head) {
			tests := named.FindAllStringSubmatch(row, -1)
			if len(tests) == 0 {
				t.Errorf("%s: no test: %s", page, row)
			}
			for _, test := range tests {
				if len(there[test[1]]) == 0 {
					t.Errorf("%s: there is no %s", page, test[1])
				}
			}
		}
	}
}

// Each fault in docs/found.md has a command that shows that it is gone.
func TestEachFoundFaultHasItsCommand(t *testing.T) {
	rows := tableRows(t, "found.md", "| when |")
	if len(rows) < 50 {
		t.Errorf("found only %d faults", len(rows))
	}
	checkCommands(t, "found.md", rows)
}

// Each promise of README.md has a command that runs its tests.
func TestEachPromiseHasItsCommand(t *testing.T) {
	rows := tableRows(t, "testing.md", "| promise |")
	checkCommands(t, "testing.md", rows)
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, promised, _ := strings.Cut(string(readme), "**Promised**")
	promised, _, _ = strings.Cut(promised, "**Not promised**")
	promises := regexp.MustCompile(`(?m)^- \*(.+?)\.\*`).FindAllStringSubmatch(promised, -1)
	if len(promises) < 4 {
		t.Fatalf("found %d promises: %q", len(promises), promises)
	}
	for _, promise := range promises {
		if !slices.ContainsFunc(rows, func(row string) bool { return strings.HasPrefix(row, "| "+promise[1]+" |") }) {
			t.Errorf("docs/testing.md has no command for the promise %q of README.md", promise[1])
		}
	}
}

// tableRows returns the rows of all tables of a page whose first line begins with head.
func tableRows(t *testing.T, page, head string) (rows []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range strings.Split(string(text), "\n"+head)[1:] {
		table, _, _ = strings.Cut(table, "\n\n")
		rows = append(rows, strings.Split(strings.TrimSpace(table), "\n")[2:]...)
	}
	if len(rows) < 3 {
		t.Fatalf("%s: %d rows of %q", page, len(rows), head)
	}
	return rows
}

var (
	command = regexp.MustCompile("`(?:LOCKMW_\\w+=\\S+ )*go test ((?:\\./[\\w/]+ ?)+)(?:-run '?([\\w/]+)'?)?`")
	plain   = regexp.MustCompile(`^(Test|Fuzz|Example)\w*$`)
)

// checkCommands checks that each row has a command that runs tests in each of its folders.
func checkCommands(t *testing.T, page string, rows []string) {
	t.Helper()
	there := testFolders(t)
	groups := scenarioGroups(t)
	for _, row := range rows {
		c := command.FindStringSubmatch(row)
		if c == nil {
			t.Errorf("%s: no command: %s", page, row)
			continue
		}
		name, group, _ := strings.Cut(c[2], "/")
		for folder := range strings.FieldsSeq(c[1]) {
			if !hasTest(there, folder, name) {
				t.Errorf("%s: no test of %s is matched by -run %s", page, folder, c[2])
			}
		}
		if name == "Conformance" && !groups[group] {
			t.Errorf("%s: there is no group of scenarios %q", page, group)
		}
	}
}

// hasTest reports whether a folder has a test whose name equals or matches the given one.
func hasTest(there map[string][]string, folder, name string) bool {
	if plain.MatchString(name) {
		return slices.Contains(there[name], folder)
	}
	for test, folders := range there {
		if strings.Contains(test, name) && slices.Contains(folders, folder) {
			return true
		}
	}
	return false
}

// testFolders returns the names of all tests and fuzz targets of the repository, and the folders of each.
func testFolders(t *testing.T) map[string][]string {
	t.Helper()
	folders := make(map[string][]string)
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(\w+ \*testing\.`)
	eachGoFile(t, root, func(path, text string) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range function.FindAllStringSubmatch(text, -1) {
			folders[f[1]] = append(folders[f[1]], "./"+filepath.ToSlash(folder))
		}
	})
	return folders
}

// scenarioGroups returns the groups of the conformance suite, as in -run.
func scenarioGroups(t *testing.T) map[string]bool {
	t.Helper()
	groups := make(map[string]bool)
	group := regexp.MustCompile(`\{Name: "([^"]+)", Scenarios:`)
	eachGoFile(t, filepath.Join(root, "internal", "test", "locktest"), func(_, text string) {
		for _, g := range group.FindAllStringSubmatch(text, -1) {
			groups[strings.ReplaceAll(g[1], " ", "_")] = true
		}
	})
	return groups
}

// eachGoFile reads every Go file below a folder.
func eachGoFile(t *testing.T, folder string, f func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil {
			f(path, string(text))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
