package docs

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/test/race"
)

const root = "../../.."

// A page is a document of the repository, by its path from the root.
type page struct{ path, text string }

// pages returns all documents.
func pages(t *testing.T) (list []page) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "deploy/*.md", "internal/*/*.md", "examples/*.md", "examples/*/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			path, err := filepath.Rel(root, file)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, page{filepath.ToSlash(path), string(text)})
		}
	}
	if len(list) < 10 {
		t.Fatalf("only %d documents were found", len(list))
	}
	return list
}

var (
	fence   = regexp.MustCompile("(?ms)^ *```(\\w*)\n(.*?\n) *```$")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
)

// prose returns the page without its code blocks.
func (p page) prose() string { return fence.ReplaceAllString(p.text, "") }

var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}\- _]`)

// anchors returns the anchors of the page's headings, as GitHub makes them.
func (p page) anchors() map[string]bool {
	anchors := make(map[string]bool)
	for _, h := range heading.FindAllStringSubmatch(p.prose(), -1) {
		plain := notInAnchor.ReplaceAllString(strings.ToLower(h[1]), "")
		anchors[strings.ReplaceAll(plain, " ", "-")] = true
	}
	return anchors
}

// deadLinks returns the links that lead nowhere in the repository.
func deadLinks(all []page) (dead []string) {
	anchors := make(map[string]map[string]bool) // of each page, by its path
	for _, p := range all {
		anchors[p.path] = p.anchors()
	}
	for _, p := range all {
		for _, l := range link.FindAllStringSubmatch(p.prose(), -1) {
			if strings.Contains(l[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(l[1], "#")
			target := filepath.ToSlash(filepath.Join(filepath.Dir(p.path), path))
			if path == "" {
				target = p.path
			}
			_, known := anchors[target]
			if _, err := os.Stat(filepath.Join(root, target)); !known && err != nil || anchor != "" && !anchors[target][anchor] {
				dead = append(dead, p.path+": "+l[1])
			}
		}
	}
	return dead
}

func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	all := pages(t)
	for _, dead := range deadLinks(all) {
		t.Error(dead)
	}
	broken := page{"docs/broken.md", "[a](nothing.md) [b](#nothing) [c](locks.md#nothing) [d](reference.md#options) [e](#title)\n# Title\n"}
	if dead := deadLinks(append(all, broken)); len(dead) != 3 {
		t.Errorf("dead links found: %v, want three", dead)
	}
}

// A link whose text is a file or folder leads there.
func TestLinksLeadToWhatTheirTextNames(t *testing.T) {
	named := regexp.MustCompile("\\[`?([\\w.-]+(?:/[\\w.-]+)+/?|[\\w.-]+\\.(?:go|md|lua|json|yml))`?\\]\\(([^)\\s:]+)\\)")
	wrong := func(p page) (links []string) {
		for _, l := range named.FindAllStringSubmatch(p.prose(), -1) {
			path, _, _ := strings.Cut(l[2], "#")
			target := filepath.ToSlash(filepath.Join(filepath.Dir(p.path), path))
			if !strings.Contains("/"+target+"/", "/"+strings.Trim(l[1], "/")+"/") {
				links = append(links, l[0])
			}
		}
		return links
	}
	for _, p := range pages(t) {
		for _, link := range wrong(p) {
			t.Errorf("%s: %s", p.path, link)
		}
	}
	fits := "[`examples/orders`](../examples/orders/main.go) [http.md](http.md#keys) [the page](inspector.md)"
	if links := wrong(page{"docs/a.md", fits + " [`examples/orders`](../examples/stock/main.go) [a.md](b.md)"}); len(links) != 2 {
		t.Errorf("wrong links found: %v, want two", links)
	}
}

var (
	namedPath   = regexp.MustCompile("`((?:[a-z.]+)(?:/[\\w.-]+)+/?)`")
	commandPath = regexp.MustCompile(`(?m)\s\./(\w[\w./-]*?)(?:/\.\.\.)?(?:\s|$)`)
)

// Files and folders that a page or a command in it names exist.
func TestNamedFilesExist(t *testing.T) {
	t.Parallel()
	for _, p := range pages(t) {
		if p.path == "CHANGELOG.md" || strings.HasPrefix(p.path, "internal/") {
			continue
		}
		found := namedPath.FindAllStringSubmatch(p.prose(), -1)
		for _, block := range fence.FindAllStringSubmatch(p.text, -1) {
			if block[1] == "sh" {
				found = append(found, commandPath.FindAllStringSubmatch(block[2], -1)...)
			}
		}
		for _, f := range found {
			top, _, _ := strings.Cut(f[1], "/")
			if _, err := os.Stat(filepath.Join(root, top)); err != nil && !strings.HasPrefix(f[0], " ") {
				continue // a media type or a library
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(f[1]))); err != nil {
				t.Errorf("%s: there is no %s", p.path, f[1])
			}
		}
	}
}

// Every page of docs begins with its subject, and a table of contents with all its sections.
func TestTablesOfContentsAreComplete(t *testing.T) {
	section := regexp.MustCompile(`(?m)^## (.+)$`)
	for _, p := range pages(t) {
		if p.path != "README.md" && !strings.HasPrefix(p.path, "docs/") {
			continue
		}
		for i, s := range section.FindAllStringSubmatch(p.prose(), -1) {
			before, _, _ := strings.Cut(p.text, "\n## ")
			if !strings.Contains(before, "- ["+s[1]+"](#") {
				t.Errorf("%s: the table of contents lacks section %d, %s", p.path, i+1, s[1])
			}
		}
	}
}

// Otherwise the site is not built, which only a workflow would notice.
func TestTheSiteHasAllPages(t *testing.T) {
	config, err := os.ReadFile(filepath.Join(root, "site", ".vitepress", "config.mts"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages(t) {
		name, ok := strings.CutPrefix(strings.TrimSuffix(p.path, ".md"), "docs/")
		if ok && !strings.Contains(string(config), "'"+name+"'") {
			t.Errorf("site/.vitepress/config.mts has no %s", p.path)
		}
	}
}

func TestREADMEIsShort(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(text), "\n"); lines > 180 {
		t.Errorf("README.md has %d lines, more than 180", lines)
	}
}

func TestBlocksOfGoCompile(t *testing.T) {
	race.FindsNothing(t)
	compiled := code(t, "snippets*_test.go") + code(t, "yourtests_test.go") + code(t, root+"/examples/recipes/*.go") +
		code(t, root+"/*mw/example*_test.go") + code(t, root+"/rivermw/snippets_test.go")
	for _, p := range pages(t) {
		for _, block := range fence.FindAllStringSubmatch(p.text, -1) {
			if block[1] == "go" && !strings.Contains(compiled, normal(block[2])) {
				t.Errorf("%s: this block is not in snippets*_test.go, yourtests_test.go, examples/recipes, rivermw/snippets_test.go or an example of a middleware:\n%s", p.path, block[2])
			}
		}
	}
}

// code returns the code of the files that match a pattern. The code for frameworks is compiled by modules of their own:
// this one has none of them.
func code(t *testing.T, pattern string) (code string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no file matches %s (%v)", pattern, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code += normal(string(text))
	}
	return code
}

// normal makes equal code equal text, wherever it is: it removes indentation, and the comma at the end of a line, which
// elements of a list have.
func normal(code string) string {
	var b strings.Builder
	for line := range strings.Lines(code) {
		line = strings.Join(strings.Fields(line), " ")
		line = strings.Replace(line, "), //", ") //", 1)
		line = strings.TrimSuffix(line, ",")
		if line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// The rules of the protocol are numbered, and code cites only these numbers.
func TestCitedRulesExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(root + "/docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	rules := make(map[string]bool)
	for _, h := range regexp.MustCompile(`(?m)^### (\d+)\. `).FindAllStringSubmatch(string(text), -1) {
		rules[h[1]] = true
	}
	cited := regexp.MustCompile(`(?m)(?:--|//).*\b[Rr]ules? (\d+(?:, \d+)*(?: and \d+)?)`)
	number := regexp.MustCompile(`\d+`)
	found := 0
	check := func(path string, entry os.DirEntry, err error) error {
		if ext := filepath.Ext(path); err != nil || entry.IsDir() || ext != ".go" && ext != ".lua" {
			return err
		}
		code, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, c := range cited.FindAllStringSubmatch(string(code), -1) {
			for _, n := range number.FindAllString(c[1], -1) {
				found++
				if !rules[n] {
					t.Errorf("%s: docs/protocol.md has no rule %s", path, n)
				}
			}
		}
		return nil
	}
	err = errors.Join(filepath.WalkDir(root+"/internal", check), filepath.WalkDir(root+"/lockmw", check))
	if err != nil || found < 30 {
		t.Errorf("only %d rules are cited (%v)", found, err)
	}
}
