package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/licensecheck"
)

// permitted are licences that allow anybody to use lockmw in a closed program, with a notice. MPL-2.0 also asks for the source of
// its own files if somebody changes them.
var permitted = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "Unlicense", "Zlib"}

// TestLicencesArePermitted looks at every module whose packages or tests are built in the workspace. With -v it lists them.
func TestLicencesArePermitted(t *testing.T) {
	var packages []string
	for _, dir := range goList(t, "-m", "-f", "{{.Dir}}") {
		packages = append(packages, filepath.Join(dir, "..."))
	}
	const format = "{{with .Module}}{{if not .Main}}{{.Path}}@{{.Version}}={{.Dir}}{{end}}{{end}}"
	modules := goList(t, append([]string{"-deps", "-test", "-f", format}, packages...)...)
	slices.Sort(modules)
	modules = slices.Compact(modules)
	if len(modules) < 50 {
		t.Fatalf("only %d modules: %q", len(modules), modules)
	}
	for _, m := range modules {
		module, dir, _ := strings.Cut(m, "=")
		names, err := licences(dir)
		if err != nil {
			t.Errorf("%s: %v", module, err)
			continue
		}
		t.Logf("%s: %s", module, strings.Join(names, ", "))
	}
}

// goList runs go list in the workspace, and returns the words that it prints.
func goList(t *testing.T, args ...string) []string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	cmd.Dir, cmd.Stderr = root, t.Output()
	cmd.Env = append(os.Environ(), "GOWORK="+filepath.Join(root, "go.work"))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return strings.Fields(string(out))
}

// licences returns the licences in the folder of a module, sorted. It fails if one is not permitted, or if most of a file is not
// the text of a known licence.
func licences(dir string) ([]string, error) {
	const enough = 60 // percent; names and years are the rest
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		if !isLicence(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		cover := licensecheck.Scan(text)
		if cover.Percent < enough {
			return nil, fmt.Errorf("%s: only %.0f %% of it is the text of a known licence", e.Name(), cover.Percent)
		}
		for _, m := range cover.Match {
			if !slices.Contains(permitted, m.ID) {
				return nil, fmt.Errorf("%s: %s is none of %s", e.Name(), m.ID, strings.Join(permitted, ", "))
			}
			found = append(found, m.ID)
		}
	}
	if len(found) == 0 {
		return nil, errors.New("it has no licence")
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// isLicence reports whether a file of this name should contain a licence.
func isLicence(name string) bool {
	ext := filepath.Ext(name)
	base := strings.ToUpper(strings.TrimSuffix(name, ext))
	return ext != ".go" && slices.Contains([]string{"LICENSE", "LICENCE", "COPYING", "UNLICENSE"}, base)
}

func TestOtherLicencesAreRefused(t *testing.T) {
	for _, c := range []struct{ name, file, text, want string }{
		{"no file", "README.md", "MIT", "no licence"},
		{"an unknown text", "LICENSE.txt", "You may look at this, but you may not use it.", "only 0 %"},
		{"a licence for some uses", "COPYING", "https://creativecommons.org/licenses/by-nc/4.0/", "CC-BY-NC"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := licences(dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}
